"""Whether the files of a SQLite database are still where they were opened.

SQLite writes on to a file that was deleted, moved or replaced, and everything is lost at the next start. So a write
counts only if the open files are still those at their paths.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import structlog

from openpai.protocol.errors import Unavailable

_BESIDE: Final = ("-wal", "-shm")
_log: Final = structlog.get_logger(__name__)
_OPEN: Final = Path("/proc/self/fd")
_Identity = tuple[int, int] | None


class OpenFiles:
    """Remembers the files of a database when it was opened, and compares them with the files at their paths."""

    def __init__(self, path: str) -> None:
        # In the spelling of /proc.
        self._path = Path(path).resolve()
        self._database: _Identity = None
        self._known: dict[str, _Identity] = {}
        self._is_logged = False

    def opened(self) -> None:
        """Remember the file of the database, after a connection was opened."""
        self._database = self._database or _identity(self._path)

    def check(self) -> None:
        """Raise Unavailable unless the open files are at their paths. Costs three system calls."""
        if self._database is None:
            return
        if _identity(self._path) != self._database:
            raise self._gone(self._path)
        for suffix in _BESIDE:
            path = self._path.with_name(self._path.name + suffix)
            found = _identity(path)
            if found is None or found != self._known.get(suffix):
                # These are created and removed with connections, so a new one may be our own.
                if _is_open_and_gone(path):
                    raise self._gone(path)
                self._known[suffix] = found

    def _gone(self, path: Path) -> Unavailable:
        # The path is for the log only: the health check needs no login.
        if not self._is_logged:
            self._is_logged = True
            _log.error("a file of the database was removed or replaced; writes are refused", file=str(path))
        return Unavailable(
            "the files of the database were removed or replaced while the server runs; nothing was changed",
            "put them back, or restart the server, which then uses the files at that place",
        )


def _identity(path: Path) -> _Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_open_and_gone(path: Path) -> bool:
    """Return whether this process has a file open that no longer has this name."""
    gone = f"{path} (deleted)"
    with contextlib.suppress(OSError):
        for file in _OPEN.iterdir():
            with contextlib.suppress(OSError):
                if str(file.readlink()) == gone:
                    return True
    return False
