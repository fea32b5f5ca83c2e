"""Starts commands of users in the confinement of a running task on this machine.

The command gets what the task's wrapper has: its environment, cgroup, limits and working directory. Where tasks run as
users without rights, it changes to the same user and group, and where a task has namespaces of its own, it enters them
first. Everything that is entered is found through the pidfd of the wrapper, whose number is not reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openpai.backends.host.directory import WORK_DIRECTORY
from openpai.backends.host.listening import connect_to_task
from openpai.backends.process.attempts import ProcessAttempt
from openpai.backends.process.dropping import TaskUser, TaskUsers, group_of
from openpai.backends.process.memory import entry_of
from openpai.backends.process.processes import marked, session_of
from openpai.backends.process.terminals import ProcessShell, spawn_shell
from openpai.ports.shells import ShellCommand, Stream, is_starting, not_running
from openpai.protocol.errors import BadConfiguration, Refused, Unavailable
from openpai.runtime.shell import start_words
from openpai.system.kernel_files import processes_in

# Outside the task, after its limits are set: enter its cgroup, then go on. Without the cgroup the command would have
# more memory than its task.
_ENTER: Final = r"""if [ -n "$1" ]; then
    { echo 0 >"$1"; } 2>/dev/null || { echo "the task's cgroup cannot be entered" >&2; exit 126; }
fi
shift
exec "$@"
"""
_NAMESPACES: Final = (("mnt", "mount"), ("pid", "pid"), ("ipc", "ipc"))
_FIRST_DESCRIPTOR: Final = 7


@dataclass(frozen=True, slots=True)
class _Entered:
    """The namespaces to enter: open files of those that differ from the server's, with nsenter's words for them."""

    files: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


class TaskShells:
    """Starts commands in task attempts, and ends those whose attempt has ended."""

    def __init__(self, ordinary: str, users: TaskUsers | None, *, has_namespaces: bool) -> None:
        """`ordinary` has the commands that set the limits of tasks."""
        self._enter = f"{ordinary}{_ENTER}"
        self._users = users
        self._has_namespaces = has_namespaces
        self._open: dict[ProcessShell, ProcessAttempt] = {}
        self._nsenter = shutil.which("nsenter")

    async def start(self, attempt: ProcessAttempt, command: ShellCommand) -> ProcessShell:
        """Start a command; raise Refused or Unavailable if the attempt does not run, or not yet."""
        with contextlib.ExitStack() as stack:
            wrapper = _wrapper_of(attempt, stack)
            environment = _environment_of(wrapper)
            user = self._user_of(attempt)
            entered = self._namespaces_of(attempt, wrapper, user, stack)
            work = f"{attempt.directory.path}/{WORK_DIRECTORY}"
            words = (
                *("/bin/sh", "-c", self._enter, "pai-enter", entry_of(attempt.cgroup)),
                *entered.words,
                *(user.prefix(attempt.key.job).split() if user else ()),
                *start_words(secrets.token_hex(8), work, command.term_or_none, command.words),
            )
            shell = spawn_shell(
                words, environment, command, inherited=entered.files, owner=user.uid if user else None,
                first_descriptor=_FIRST_DESCRIPTOR,
            )  # fmt: skip
        self._open[shell] = attempt
        shell.ended.add_done_callback(lambda _: self._open.pop(shell, None))
        if not attempt.is_running:
            shell.signal(signal.SIGKILL)
        return shell

    async def connect(self, attempt: ProcessAttempt, port: int) -> Stream:
        """Connect to a port of this machine, whose network all tasks share, if a process of the task listens there."""
        return await connect_to_task(attempt.key, port, lambda: pids_of(attempt))

    def end(self, attempt: ProcessAttempt) -> None:
        """Kill the commands in an attempt that has ended."""
        for shell, of in list(self._open.items()):
            if of is attempt:
                shell.signal(signal.SIGKILL)

    async def close(self) -> None:
        """End all commands: no later server could attach to them."""
        await asyncio.gather(*(shell.close() for shell in list(self._open)))

    def _user_of(self, attempt: ProcessAttempt) -> TaskUser | None:
        """Return the user that an attempt runs as, None for the server's own."""
        if self._users is None:
            return None
        # The directory above belongs to the server, so the task cannot replace this one; only root changes its owner.
        owner = os.lstat(f"{attempt.directory.path}/{WORK_DIRECTORY}").st_uid
        try:
            return self._users.user_with(owner)
        except ValueError as error:
            message = f"task {attempt.key.task.role}-{attempt.key.task.index} was started without a user of its own"
            raise Refused("ForbiddenUserError", message, "restart the job to get a shell in it") from error

    def _namespaces_of(
        self, attempt: ProcessAttempt, wrapper: int, user: TaskUser | None, stack: contextlib.ExitStack
    ) -> _Entered:
        inside = wrapper
        if user is not None and self._has_namespaces:
            found = _first_inside(attempt, wrapper, user.uid, group_of(attempt.key.job), stack)
            if found is None:
                raise is_starting(attempt.key)
            inside = found
        files: list[int] = []
        words: list[str] = []
        for name, option in _NAMESPACES:
            with _vanishing(attempt):
                file = os.open(f"ns/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=inside)
            stack.callback(os.close, file)
            if not os.path.samestat(os.fstat(file), Path(f"/proc/self/ns/{name}").stat()):
                words.append(f"--{option}=/proc/self/fd/{_FIRST_DESCRIPTOR + len(files)}")
                files.append(file)
        if not files:
            return _Entered()
        if self._nsenter is None:
            raise BadConfiguration("a shell in a task needs the program nsenter", "install util-linux on the server")
        return _Entered(tuple(files), (self._nsenter, *words))


def pids_of(attempt: ProcessAttempt) -> set[int]:
    """Return the processes of a task attempt: those in its cgroup, or without one those of its session or its mark."""
    if attempt.cgroup:
        return set(processes_in(attempt.cgroup))
    path = attempt.directory.path
    found = {stray.pid for stray in marked(str(Path(path).parent)) if stray.directory == path}
    return found | session_of(attempt.pid) if attempt.pid is not None else found


@contextlib.contextmanager
def _vanishing(attempt: ProcessAttempt) -> Iterator[None]:
    """Turn the end of a process into the error for a task that does not run."""
    try:
        yield
    except OSError as error:
        raise not_running(attempt.key) from error


def _wrapper_of(attempt: ProcessAttempt, stack: contextlib.ExitStack) -> int:
    """Return the open directory of /proc of a running attempt's wrapper."""
    if not attempt.is_running or attempt.pid is None or attempt.held is None:
        raise not_running(attempt.key)
    ticket = attempt.directory.ticket()
    if ticket is None or ticket.pid is None:
        raise is_starting(attempt.key)
    with _vanishing(attempt):
        found = _process(attempt.pid, stack)
        # While the pidfd of a process is alive, its number is its own.
        signal.pidfd_send_signal(attempt.held, 0)
    return found


def _process(pid: int, stack: contextlib.ExitStack) -> int:
    directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, directory)
    return directory


def _environment_of(wrapper: int) -> dict[str, str]:
    try:
        text = _read(wrapper, "environ")
    except OSError as error:
        raise Unavailable(f"the environment of the task cannot be read: {error}") from error
    variables = (variable.partition(b"=") for variable in text.split(b"\0") if b"=" in variable)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in variables}


def _first_inside(attempt: ProcessAttempt, wrapper: int, uid: int, gid: int, stack: contextlib.ExitStack) -> int | None:
    """Return the first process of a task's namespaces once the task has begun in them; None before that.

    The namespaces are complete as soon as one of its children has become the task's user.
    """
    level = [(wrapper, attempt.pid or 0)]
    while level:
        following: list[tuple[int, int]] = []
        for directory, pid in level:
            for child in _children(directory, pid):
                with contextlib.suppress(OSError):
                    found = _process(child, stack)
                    status = _status(found)
                    if int(status["PPid"][0]) != pid:
                        continue
                    if len(status["NSpid"]) > 1 and status["NSpid"][-1] == "1":
                        return found if _has_become(found, child, uid, gid, stack) else None
                    following.append((found, child))
        level = following
    return None


def _has_become(first: int, pid: int, uid: int, gid: int, stack: contextlib.ExitStack) -> bool:
    for child in _children(first, pid):
        with contextlib.suppress(OSError):
            status = _status(_process(child, stack))
            if status["Uid"] == [str(uid)] * 4 and status["Gid"][:1] == [str(gid)]:
                return True
    return False


def _children(directory: int, pid: int) -> list[int]:
    try:
        return [int(child) for child in _read(directory, f"task/{pid}/children").split()]
    except OSError:
        return []


def _status(directory: int) -> dict[str, list[str]]:
    lines = _read(directory, "status").decode(errors="replace").splitlines()
    return {name: values.split() for name, _, values in (line.partition(":") for line in lines)}


def _read(directory: int, name: str) -> bytes:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    with open(file, "rb") as opened:  # noqa: PTH123  # what is opened is a number
        return opened.read()
