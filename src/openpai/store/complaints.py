"""What a database complains about, in our own three families of errors."""

from __future__ import annotations

from sqlalchemy import exc

from openpai.protocol.errors import PaiError, Refused, Unavailable


def told(error: exc.DBAPIError) -> PaiError:
    """Return what a database's complaint means for whoever asked."""
    reason = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
    if "disk is full" in reason or "No space left" in reason:
        return Unavailable(
            "the disk that holds the database is full; nothing was changed", "free some space, try again"
        )
    if "malformed" in reason or "not a database" in reason:
        return Refused(
            "BadConfigurationError",
            f"the database file is damaged ({reason})",
            "restore it from a backup, or move it away to start with an empty one",
        )
    return Unavailable(f"the database does not answer: {reason}")
