"""Translates errors of a database to our three families.

The caller only learns that the database does not answer. The cause names its host and user, so it goes to the log, once
for each outage and not with each of a thousand requests.
"""

from __future__ import annotations

import sqlite3
from typing import Final

import structlog
from sqlalchemy import exc

from openpai.protocol.errors import BadConfiguration, InvalidParameters, PaiError, Unavailable

_log: Final = structlog.get_logger(__name__)


def translate(error: exc.DBAPIError) -> PaiError:
    """Return our error for a database's error, with the database's own message as the reason."""
    reason = _reason(error)
    if "disk is full" in reason or "No space left" in reason:
        return Unavailable(
            "the disk that holds the database is full; nothing was changed", "free some space, try again"
        )
    if "malformed" in reason or "not a database" in reason:
        return BadConfiguration(
            f"the database file is damaged ({reason})",
            "restore it from a backup, or move it away to start with an empty one",
        )
    if isinstance(error, exc.DataError) and ("NUL" in reason or "\\u0000" in reason or "0x00" in reason):
        # Requests are checked earlier; if one gets here, repeating it will not help.
        return InvalidParameters("a text contains a NUL character, which cannot be stored", "remove it")
    return Unavailable(f"the database does not answer: {reason}")


def is_connection_lost(error: Exception) -> bool:
    """Return whether an error concerns the connection, so that repeating single statements would fail as well."""
    if not isinstance(error, exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    # Errors about a statement have a code in PostgreSQL, errors of the connection have none.
    is_unasked = isinstance(error, exc.OperationalError) and getattr(error.orig, "sqlstate", None) is None
    return error.connection_invalidated or is_unasked


class Outage:
    """Tracks an outage of reading or writing, and logs its start and its end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._reasons: set[str] = set()

    def met(self, error: exc.DBAPIError) -> PaiError:
        """Return the error for the caller; log the cause once for each outage."""
        reason = _reason(error)
        if not isinstance(error, exc.OperationalError):
            # The connection works. Perhaps another version of this program has changed the tables.
            _log.error("the database refused a statement", reason=reason)
        elif reason not in self._reasons:
            self._reasons.add(reason)
            _log.warning(f"the database cannot be {self._what}", reason=reason)
        meaning = translate(error)
        if isinstance(meaning, Unavailable) and reason in meaning.message:
            return Unavailable("the database does not answer")
        return meaning

    def is_over(self) -> None:
        """Record that the database answered."""
        if self._reasons:
            self._reasons = set()
            _log.info(f"the database can be {self._what} again")


def _reason(error: exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig else str(error)
