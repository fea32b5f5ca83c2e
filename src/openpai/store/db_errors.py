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


_NUL: Final = frozenset({"22021", "22P05"})
"""PostgreSQL's codes for characters that it cannot store: of the server's encoding, and of JSON."""
_DISK_FULL: Final = "53100"
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def translate(error: exc.DBAPIError) -> PaiError:
    """Return our error for a database's error, with the database's own message as the reason."""
    return _known(error) or Unavailable(f"the database does not answer: {_reason(error)}")


def _known(error: exc.DBAPIError) -> PaiError | None:
    sqlite_code, sqlstate = _codes(error)
    if sqlite_code == sqlite3.SQLITE_FULL or sqlstate == _DISK_FULL:
        return Unavailable(
            "the disk that holds the database is full; nothing was changed", "free some space, try again"
        )
    if sqlite_code in _DAMAGED:
        return BadConfiguration(
            f"the database file is damaged ({_reason(error)})",
            "restore it from a backup, or move it away to start with an empty one",
        )
    # Psycopg refuses a text with a NUL before the server sees it, and gives no code.
    if sqlstate in _NUL or (isinstance(error, exc.DataError) and sqlstate is None and "NUL" in _reason(error)):
        # Requests are checked earlier; if one gets here, repeating it will not help.
        return InvalidParameters("a text contains a NUL character, which cannot be stored", "remove it")
    return None


def _codes(error: exc.DBAPIError) -> tuple[int, str | None]:
    """Return SQLite's primary result code, 0 without one, and PostgreSQL's code."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF, getattr(error.orig, "sqlstate", None)


def is_connection_lost(error: Exception) -> bool:
    """Return whether an error concerns the connection, so that repeating single statements would fail as well."""
    if not isinstance(error, exc.DBAPIError):
        return False
    sqlite_code, sqlstate = _codes(error)
    if isinstance(error.orig, sqlite3.Error):
        return sqlite_code == sqlite3.SQLITE_BUSY
    # Errors about a statement have a code in PostgreSQL, errors of the connection have none.
    is_unasked = isinstance(error, exc.OperationalError) and sqlstate is None
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
        return _known(error) or Unavailable("the database does not answer")

    def is_over(self) -> None:
        """Record that the database answered."""
        if self._reasons:
            self._reasons = set()
            _log.info(f"the database can be {self._what} again")


def _reason(error: exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig else str(error)
