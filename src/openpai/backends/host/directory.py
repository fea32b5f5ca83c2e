"""The directory of one task attempt: everything that a later server needs to find out how it ended.

`task.json` has the launch, `user.sh` is the script, `ticket` names the owner of the attempt, `exit` has the exit
report, `work/` is the working directory. A server may repeat every step after dying halfway: the ticket and the exit
report are never replaced, and a directory leaves the tree in one step before its contents are removed.

A task may change these files. So no link among them is ever followed, and anything but a regular file counts as
missing: a pipe would block its reader for ever, and a link would let a task write where only the server may. The same
holds for files that the server may not read, because root in a container can change their owner and mode.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.runtime.notice import NOTICE_FILE
from openpai.runtime.progress import PROGRESS_FILE
from openpai.runtime.script import EXIT_FILE, FENCED, GRACE_FILE, HOSTS_FILE, SCRIPT_FILE, TICKET_FILE, ExitText, Ticket
from openpai.runtime.unpacking import CODE_FILE
from openpai.system.kernel_files import read_up_to

RECORD_FILE: Final = "task.json"
WORK_DIRECTORY: Final = "work"
HOME_DIRECTORY: Final = "home"
TMP_DIRECTORY: Final = "tmp"
ENTRY_FILE: Final = "enter.sh"
USERS_FILE: Final = "passwd"
TRASH: Final = ".trash"
SPARE: Final = ".spare"
KEPT: Final = ".kept"
_LINKS: Final = frozenset({"mnt"})
"""The names that the platform itself creates in a working directory: links to storages."""
_OURS: Final = (
    SCRIPT_FILE, RECORD_FILE, TICKET_FILE, EXIT_FILE, HOSTS_FILE,
    GRACE_FILE, NOTICE_FILE, PROGRESS_FILE, ENTRY_FILE, USERS_FILE, CODE_FILE,
)  # fmt: skip
_OF_ONE_ATTEMPT: Final = frozenset({TICKET_FILE, EXIT_FILE, GRACE_FILE, NOTICE_FILE, PROGRESS_FILE, CODE_FILE})
"""Files of an attempt that the next one in the same directory must not find."""
_DIRECTORIES: Final = (WORK_DIRECTORY, HOME_DIRECTORY, TMP_DIRECTORY)
_REASONS: Final = frozenset(ExitReason)
_WARY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _WARY
_OVER: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _WARY
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What a later server must know about a launch. `boot` identifies the system start that process numbers belong to.

    `cgroup` is the path of the cgroup that limits the attempt's memory, empty if there is none.
    """

    grant: int
    node: str
    devices: tuple[int, ...]
    started_at_ms: int
    boot: str
    cgroup: str = ""

    def text(self) -> str:
        """Return it as a JSON object, for `TaskDirectory.record`."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


class TaskDirectory:
    """The files of one task attempt."""

    __slots__ = ("key", "path", "root")

    def __init__(self, root: str, key: AttemptKey) -> None:
        self.root = root
        self.key = key
        self.path = f"{root}/{key.path()}"

    @classmethod
    def at(cls, path: str) -> TaskDirectory:
        """Return the task directory with this `path`; raise ValueError for any other path."""
        root, _, name = path.rpartition("/")
        return cls(root, AttemptKey.parse(name))

    def prepare(
        self, record: LaunchRecord, script: str, hosts: str, spare: str | None = None, shared_hosts: str | None = None
    ) -> None:
        """Write everything a wrapper needs, in the directory `spare` if there is one to reuse.

        `shared_hosts` is a file that has `hosts` already, for all tasks of a job. Raise OSError if writing fails.
        """
        if spare is None or not _moved(spare, self.path):
            make_directory(self.path)
            make_directory(self._file(WORK_DIRECTORY))
        if shared_hosts is None or not _linked(shared_hosts, self._file(HOSTS_FILE)):
            _leave_others(self._file(HOSTS_FILE))
            _write(self._file(HOSTS_FILE), hosts, _OVER)
        _write(self._file(SCRIPT_FILE), script, _OVER)
        _write(self._file(RECORD_FILE), record.text(), _OVER)

    def take_code(self, packed: str) -> str:
        """Put the packed code of the job there, which its tasks share; return its path. Raise OSError if it fails."""
        path = self._file(CODE_FILE)
        if not _linked(packed, path):
            shutil.copyfile(packed, path)
        return path

    def fence(self) -> None:
        """Prevent a wrapper from beginning, unless one already has."""
        make_directory(self.path)
        with contextlib.suppress(FileExistsError):
            _write(self._file(TICKET_FILE), f"{FENCED}\n", _NEW)

    def write_report(self, report: ExitReport) -> None:
        """Store how the attempt ended, unless that is stored already."""
        text = ExitText(report.code, report.reason.value, report.message).text()
        with contextlib.suppress(FileExistsError):
            _write(self._file(EXIT_FILE), text, _NEW)

    def write_grace(self, grace_s: float) -> None:
        """Write the grace period after SIGTERM for the wrapper."""
        _write(self._file(GRACE_FILE), f"{grace_s:g}\n", _OVER)

    def write_notice(self, text: str) -> None:
        """Write for the task why it has to end and until when, so that it reads all of it or nothing."""
        fresh = self._file(f".{NOTICE_FILE}-{secrets.token_hex(8)}")
        _write(fresh, text, _NEW)
        os.chmod(fresh, 0o644, follow_symlinks=False)  # noqa: PTH101
        os.replace(fresh, self._file(NOTICE_FILE))  # noqa: PTH105

    def record(self) -> LaunchRecord | None:
        """Return the launch, or None if the server died before it wrote it."""
        try:
            fields = json.loads(_found(self._file(RECORD_FILE))[0] or "")
            devices = tuple(map(int, fields["devices"]))
            return LaunchRecord(**{**fields, "grant": int(fields["grant"]), "devices": devices})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def ticket(self) -> Ticket | None:
        """Return the owner of the attempt, or None when there is none."""
        return Ticket.parse(_found(self._file(TICKET_FILE))[0])

    def report(self) -> ExitReport | None:
        """Return how the attempt ended, or None when there is no complete report."""
        text, written_at_ms = _found(self._file(EXIT_FILE))
        message = ExitText.parse(text)
        if message is None:
            return None
        reason = ExitReason(message.reason) if message.reason in _REASONS else ExitReason.EXITED
        return ExitReport(message.code, reason, message.message, ended_at_ms=written_at_ms)

    def write(self, name: str, text: str) -> None:
        """Write another file. Raise OSError if something other than a regular file has that name."""
        _write(self._file(name), text, _OVER)

    def hand_over(self, user: int, group: int) -> None:
        """Allow one user in `group` to read the script and own the working directory, and nothing else.

        A home directory and a directory for temporary files are created for that user.
        """
        for name in _DIRECTORIES:
            make_directory(self._file(name))
            os.chown(self._file(name), user, group)
        for name in (SCRIPT_FILE, HOSTS_FILE):
            os.chown(self._file(name), -1, group)
            os.chmod(self._file(name), 0o640)  # noqa: PTH101
        # Last, because until now no other user can enter.
        os.chown(self.path, -1, group)
        os.chmod(self.path, 0o710)  # noqa: PTH101, S103  # no way in but for that group

    def let_anybody_read(self, *, is_work_open: bool = False) -> None:
        """Allow every user of the machine who reaches this directory to read these files and create others.

        With `is_work_open` they may write to the working directory too.
        """
        os.chmod(self.path, 0o777)  # noqa: PTH101, S103  # no other user can enter its root
        for name in os.listdir(self.path):  # noqa: PTH208  # only names are needed
            file = os.open(self._file(name), os.O_RDONLY | _WARY)
            try:
                mode = 0o755 if stat.S_ISDIR(os.fstat(file).st_mode) else 0o644
                os.fchmod(file, 0o777 if is_work_open and name == WORK_DIRECTORY else mode)
            finally:
                os.close(file)

    def discard(self, name: str) -> None:
        """Move the directory to the trash under `name`.

        If it cannot be moved, it stays, and the next server finds it.
        """
        _moved(self.path, f"{self.root}/{TRASH}/{name}")

    def has_left_work(self) -> bool:
        """Return whether the task left files in its working directory."""
        try:
            # The task may have put a link there.
            directory = os.open(self._file(WORK_DIRECTORY), os.O_RDONLY | os.O_DIRECTORY | _WARY)
        except OSError:
            return False
        try:
            with os.scandir(directory) as found:
                return any(entry.name not in _LINKS for entry in found)
        except OSError:
            return False
        finally:
            os.close(directory)

    def note_left_work(self, logs_root: str, *, is_kept: bool) -> None:
        """Write to the attempt's `runtime` log whether the files that the task left, if any, are kept."""
        if self.has_left_work():
            what = "can be fetched for a while: pai job fetch" if is_kept else "are removed now"
            self.note(logs_root, f"the task left files in its working directory; they {what}")

    def note(self, logs_root: str, text: str) -> None:
        """Write a message of the platform to the attempt's `runtime` log."""
        _append(f"{logs_root}/{self.key.path()}/runtime.log", f"[openpai-runtime] {text}\n")

    def keep_work(self, logs_root: str) -> None:
        """Move the files that the task left to where users can fetch them; its log says if that is impossible."""
        if not self.has_left_work():
            return
        with contextlib.suppress(OSError):
            make_directory(f"{self.root}/{KEPT}")
        goal = f"{self.root}/{KEPT}/{self.key.path()}"
        if _moved(self._file(WORK_DIRECTORY), goal):
            with contextlib.suppress(OSError):
                # Since when it is kept.
                os.utime(goal, follow_symlinks=False)
        else:
            self.note(
                logs_root, "the files that the task left are lost: they could not be moved to where files are kept"
            )

    def spare(self, name: str) -> str | None:
        """Move the directory out of the tree and return it cleaned for reuse, or None if that is impossible."""
        path = f"{self.root}/{SPARE}/{name}"
        if not _moved(self.path, path):
            return None
        if _is_as_new(path):
            return path
        _moved(path, f"{self.root}/{TRASH}/{name}")
        return None

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"


def task_directories(root: str) -> Iterator[TaskDirectory]:
    """Yield every task attempt's directory below `root`; other directories are skipped."""
    with os.scandir(root) as found:
        for entry in found:
            with contextlib.suppress(ValueError):
                directory = TaskDirectory.at(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    yield directory


def make_directory(path: str) -> None:
    """Create a directory, readable only by its owner, unless it exists."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102  # done several times for each task, and a Path costs as much again


def _moved(path: str, goal: str) -> bool:
    try:
        os.rename(path, goal)  # noqa: PTH104  # done for each task
    except OSError:
        return False
    return True


def _linked(file: str, path: str) -> bool:
    """Rename a file, replacing what has that name; return False if that fails."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108  # done for each task of a large job
        os.link(file, path, follow_symlinks=False)
    except OSError:
        return False
    return True


def _leave_others(path: str) -> None:
    """Remove a hard link if the file has others, so that the next write does not change those."""
    with contextlib.suppress(FileNotFoundError):
        if os.lstat(path).st_nlink > 1:
            os.unlink(path)  # noqa: PTH108  # done for each task


def _is_as_new(path: str) -> bool:
    """Clean a used directory for reuse; return False if a task left something in it.

    Creating files again is slow, so files that can be reused stay.
    """
    if not _is_directory(path):
        return False
    try:
        with os.scandir(path) as found:
            for entry in found:
                if not _is_ours(entry):
                    return False
                if entry.name in _OF_ONE_ATTEMPT:
                    os.unlink(entry.path)  # noqa: PTH108  # done for each task
        with os.scandir(f"{path}/{WORK_DIRECTORY}") as found:
            if next(found, None) is not None:
                return False
        _leave_others(f"{path}/{HOSTS_FILE}")
        # The commands of a task may hold secrets.
        os.truncate(f"{path}/{SCRIPT_FILE}", 0)
        os.chmod(path, 0o700)  # noqa: PTH101
    except OSError:
        return False
    return True


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if entry.name == WORK_DIRECTORY:
        return entry.is_dir(follow_symlinks=False)
    return entry.name in _OURS and entry.is_file(follow_symlinks=False)


def remove_if_unused(path: str) -> bool:
    """Remove the files of a task that created none of its own; return False, with some removed, otherwise.

    The platform's own files are removed by name, which costs a quarter of listing the directory.
    """
    try:
        if not _is_directory(path):
            os.unlink(path)  # noqa: PTH108  # done for each task
            return True
        for name in _OURS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}/{name}")  # noqa: PTH108  # done for each task
        for name in _DIRECTORIES:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(f"{path}/{name}")  # noqa: PTH106
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        return not os.path.lexists(path)
    except OSError:
        return False
    return True


def _write(path: str, text: str, flags: int) -> None:
    data = text.encode()
    file = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", path)
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def _append(path: str, text: str) -> None:
    """Append to an existing regular file; do nothing if there is none, or the disk is full."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | _WARY)
        try:
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.write(file, text.encode())
        finally:
            os.close(file)


def _found(path: str) -> tuple[str, int]:
    """Return the text of a file and when it was written, in ms; empty if there is no regular file of that name."""
    try:
        file = os.open(path, os.O_RDONLY | _WARY)
    except OSError as error:
        if error.errno in _ABSENT:
            return "", 0
        raise
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return "", 0
        return read_up_to(file).decode(errors="replace"), about.st_mtime_ns // 1_000_000
    finally:
        os.close(file)
