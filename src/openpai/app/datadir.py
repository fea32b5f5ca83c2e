"""The data directory of one server: the lock that guards it, and where its files are."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from openpai.protocol.errors import BadConfiguration, Refused
from openpai.store.database import place_of

_OTHERS: Final = 0o007
_PASS: Final = 0o001
# A restored directory has no lock yet, and with PostgreSQL no database either.
_SIGNS: Final = ("lock", "openpai.db", "secret.key")
LAST_BACKUP: Final = "last-backup"
"""The file of a data directory that says when a backup was last made."""
RESTORE_STAGE: Final = "restoring"
"""Where in a data directory a backup is unpacked before its files are put in their places."""
# Not the key itself: a key that others could read must be reported, not silently made private.
_FILES: Final = (
    "lock",
    "visitors",
    "database",
    "task-uids",
    "secret.key.*",
    "openpai.db*",
    "metrics.db*",
    "application-ports.*",
)


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data directory, held by one process at a time; others may read it."""

    root: Path
    lock: IO[str] | None
    """Shared by readers; None where the directory cannot be written."""

    @property
    def database_url(self) -> str:
        """Return the URL of the SQLite database in this directory."""
        return f"sqlite:///{self.root / 'openpai.db'}"

    @property
    def key_file(self) -> Path:
        """Return the file of the key that seals secrets."""
        return self.root / "secret.key"

    @property
    def logs(self) -> Path:
        """Return the directory of the logs of task attempts."""
        return self.root / "logs"

    @property
    def task_uids(self) -> Path:
        """Return the file that maps users to the user numbers of their tasks."""
        return self.root / "task-uids"

    @property
    def ssh_host_key(self) -> Path:
        """Return the file of the host key of the SSH gateway."""
        return self.root / "ssh-host-key"

    @property
    def code(self) -> Path:
        """Return the directory of the code that users send along with jobs."""
        return self.root / "code"

    @property
    def tasks(self) -> Path:
        """Return the parent of the directories of task attempts."""
        return self.root / "tasks"

    @property
    def has_database(self) -> bool:
        """Return whether the directory holds a database."""
        return (self.root / "openpai.db").exists()

    def refuse_other_database(self, url: str | None, *, may_move: bool = False) -> None:
        """Raise Refused when another database than this belongs to the directory; None for the one in it.

        With another one, the key would not fit and no running task would be known. `may_move` allows the change from
        the database in the directory to one elsewhere.
        """
        place = self._place(url)
        is_noted = self._note.exists()
        known = self._note.read_text(errors="replace") if is_noted else ""
        if known == place or not (is_noted or (self.has_database and not may_move)):
            return
        message = f"the data directory {self.root} belongs to the database {known or self.database_url}"
        advice = f"use it with --database-url; if it was moved, remove {self._note} first"
        raise BadConfiguration(message, advice if is_noted else "leave --database-url away")

    def require_database(self, url: str | None) -> str:
        """Return the URL of the database of this directory. Raises Refused for another one, or when there is none."""
        self.refuse_other_database(url)
        if not url and not self.has_database:
            message = f"there is no database in {self.root}"
            raise BadConfiguration(message, "name the database of its server with --database-url")
        return url or self.database_url

    def remember_database(self, url: str | None) -> None:
        """Record which database belongs to this directory, unless it is the one inside."""
        place = self._place(url)
        if place and not self._note.exists():
            self._note.touch(mode=0o600)
            self._note.write_text(place)

    def let_pass(self, root: Path) -> None:
        """Let tasks of other users reach `root`, below `tasks`, by its name, and nothing beside it."""
        for other in self.tasks.iterdir():
            if other != root:
                other.chmod(0o700)
        _shut(self, may_pass=True)
        for directory in (self.tasks, self.root):
            directory.chmod(directory.stat().st_mode & 0o7777 | _PASS)

    def _place(self, url: str | None) -> str:
        place = place_of(url) if url else ""
        return "" if place == place_of(self.database_url) else place

    @property
    def _note(self) -> Path:
        return self.root / "database"

    def close(self) -> None:
        """Release the directory for other processes."""
        if self.lock is not None:
            self.lock.close()


def restore_mark(root: Path) -> Path:
    """Return the file that marks an unfinished restore: beside the directory, because the directory is moved."""
    return root.with_name(f".{root.name}.restoring")


def refuse_half_restored(root: Path) -> None:
    """Raise Refused after an interrupted restore: a server would start with an empty platform."""
    root = root.expanduser().absolute()
    mark, stage = restore_mark(root), root / RESTORE_STAGE
    is_whole = (root / "openpai.db").exists() or (root / "database").exists()
    if is_whole or not (mark.exists() or stage.exists()):
        return
    advice = f"run it again: pai admin restore FILE --data-dir {root} --force"
    with contextlib.suppress(OSError):
        if aside := mark.read_text().strip():
            advice += f". The old content is in {aside}"
    left = mark if mark.exists() else stage
    message = f"a restore of the data directory {root} was interrupted, and the directory is incomplete"
    raise BadConfiguration(message, f"{advice}. For a new platform, remove {left}")


def visit_data_dir(root: Path) -> DataDir:
    """Return another server's data directory, to read its logs and its key. Raises Refused when there is none."""
    root = root.expanduser().absolute()
    if not (root / "logs").is_dir():
        raise BadConfiguration(
            f"{root} is not the data directory of a server",
            "start the server that runs the jobs first, and give its directory with --data-dir",
        )
    try:
        shared = _shared_file(root / "visitors")
    except OSError:
        return DataDir(root, None)
    fcntl.flock(shared, fcntl.LOCK_SH)
    return DataDir(root, shared)


def known_data_dir(root: Path) -> DataDir:
    """Take an existing data directory. Raises Refused for any other, so that a wrong path creates no new platform."""
    root = root.expanduser().absolute()
    _require_signs(root)
    return open_data_dir(root)


def _require_signs(root: Path) -> None:
    if not any((root / sign).exists() for sign in _SIGNS):
        message = f"{root} is not the data directory of a server"
        raise BadConfiguration(message, "name the directory of `pai up` with --data-dir")


def look_at_data_dir(root: Path) -> DataDir:
    """Return a data directory that a server may be using, for reading. Raises Refused while its key is replaced."""
    root = root.expanduser().absolute()
    _require_signs(root)
    try:
        shared = _shared_file(root / "visitors")
    except OSError:
        return DataDir(root, None)
    try:
        fcntl.flock(shared, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        shared.close()
        message = f"`pai admin rotate-key` or `pai admin restore` uses the data directory {root}"
        raise BadConfiguration(message, "wait for its end, and try again") from error
    return DataDir(root, shared)


def refuse_visitors(data: DataDir) -> IO[str]:
    """Lock readers out until the returned file is closed. Raises Refused while there are readers."""
    alone = _shared_file(data.root / "visitors")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        alone.close()
        raise BadConfiguration(
            f"servers started with --api-only use the data directory {data.root}",
            "stop them too, and start them again afterwards",
        ) from error
    return alone


def open_data_dir(root: Path, *, may_pass: bool = False) -> DataDir:
    """Create or take a data directory. Raises Refused when it cannot be written or another server uses it.

    `may_pass` keeps the access of other users that `let_pass` allowed: running tasks may need it.
    """
    root = root.expanduser().absolute()
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _shared_file(root / "lock")
    except OSError as error:
        raise BadConfiguration(
            f"the data directory {root} cannot be used: {error.strerror}", "choose another directory with --data-dir"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        by = ", ".join(lock.read().split()) or "another process"
        lock.close()
        raise BadConfiguration(
            f"another server (process {by}) uses the data directory {root}",
            "stop it, or choose another directory with --data-dir",
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    data = DataDir(root, lock)
    try:
        _refuse_directories(root)
        _shut(data, may_pass=may_pass)
    except Refused:
        data.close()
        raise
    except OSError as error:
        data.close()
        message = f"the data directory {root} cannot be used: {error.filename}: {error.strerror}"
        raise BadConfiguration(message, "correct that, or choose another with --data-dir") from error
    return data


def note_address(root: Path, url: str) -> None:
    """Record at which address the server answers that holds a data directory."""
    with (root / "lock").open("a") as lock:
        lock.write(f"{url}\n")


def running_address(root: Path) -> str | None:
    """Return at which address the server answers that holds a data directory; None if none runs."""
    try:
        pid, url = (root / "lock").read_text("utf-8").split()
        os.kill(int(pid), 0)
    except PermissionError:
        # It runs as another user.
        return url
    except (OSError, ValueError):
        return None
    return url


def _refuse_directories(root: Path) -> None:
    """Raise Refused if a file is something else, such as a directory."""
    for path in (
        root / "secret.key",
        root / "openpai.db",
        root / "database",
        root / "task-uids",
        root / "ssh-host-key",
    ):
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "a device or a socket"
            message = f"{path} is {kind}, but must be a file"
            raise BadConfiguration(message, "put back the file that belongs there, from a backup")


def _shared_file(path: Path) -> IO[str]:
    """Open a lock file; only its owner may, since other users could otherwise lock servers out."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.fdopen(os.open(path, flags, 0o600), "a+")
    if os.geteuid() == 0:
        # Root may repair the platform of a server that runs as another user, which must be able to open the file next.
        whose = path.parent.stat()
        os.fchown(file.fileno(), whose.st_uid, whose.st_gid)
    return file


def _shut(data: DataDir, *, may_pass: bool) -> None:
    """Make the files in the directory private, even where other users may enter it."""
    for directory in (data.logs, data.tasks, data.code):
        directory.mkdir(exist_ok=True, mode=0o700)
    # SQLite gives the files beside a database the same mode.
    files = (path for name in _FILES for path in data.root.glob(name))
    for path in (data.logs, data.tasks, data.code, *files):
        with contextlib.suppress(FileNotFoundError):
            mode = path.stat().st_mode
            taken = _OTHERS & ~_PASS if may_pass and path == data.tasks else _OTHERS
            if mode & taken:
                path.chmod(mode & ~taken & 0o7777)
