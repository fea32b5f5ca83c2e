"""Starts processes in sessions of their own, recognises them again, and ends them reliably.

A number alone does not identify a process, because the system reuses it: together with the start time it does. A
process that left its task's group still has the task's directory in its environment, by which the sweep finds it; only
one that also cleared its environment escapes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from openpai.system.kernel_files import read_up_to
from openpai.system.supervision import note_failure

MARKER: Final = "OPENPAI_TASK_DIRECTORY"
"""Environment variable that marks every process of a task attempt."""

_BORN_FIELD: Final = 19
"""Position of the start time among the fields of /proc/PID/stat after the name in parentheses."""
_STREAMS_LAST: Final = 2
# Ignored signals are inherited. Python ignores SIGPIPE, with which a task would wait for ever in `yes | head`; `nohup`
# and shells that start the server in the background ignore SIGHUP and SIGINT, and what started them may ignore others.
DEFAULT_SIGNALS: Final = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


class Stray(NamedTuple):
    """A live process that carries a task's mark."""

    pid: int
    directory: str


def spawn(arguments: tuple[str, ...], environment: Mapping[str, str], silence: int) -> int:
    """Start a program as leader of a new session and return its number. All three of its streams are `silence`."""
    streams = [(os.POSIX_SPAWN_DUP2, silence, stream) for stream in (0, 1, 2)]
    return os.posix_spawn(
        arguments[0],
        arguments,
        environment,
        file_actions=streams,
        setsid=True,
        setsigmask=(),
        setsigdef=DEFAULT_SIGNALS,
    )


def keep_descriptors() -> None:
    """Keep the open files that the server was started with, such as a lock of the script around it, from its children.

    Python itself opens no file that a child would inherit.
    """
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names only
        if int(name) > _STREAMS_LAST:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def boot_id() -> str:
    """Return an identifier of this system start; process numbers are only valid within it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def born_at(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks (hundredths of a second on Linux) since the system start.

    None if there is no such process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[_BORN_FIELD])


def hold(pid: int, claimed: int) -> int | None:
    """Return a pidfd of the process that had this number at `claimed`, None if it is gone.

    A later process with the same number started later.
    """
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return None
    born = born_at(pid)
    if born is not None and born <= claimed:
        return held
    os.close(held)
    return None


def signal_held(held: int, number: int) -> None:
    """Send a signal to the process of a pidfd; do nothing if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(held, number)


def kill_group(leader: int) -> None:
    """Kill every process in the group of `leader`, whose number must still be its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def is_group_left(leader: int) -> bool:
    """Return whether a process is left in the group that `leader` led."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def marked(root: str) -> list[Stray]:
    """Return the live processes with the mark of a task directory below `root`. Reads all of /proc."""
    return [
        Stray(int(name), directory)
        for name in os.listdir("/proc")  # noqa: PTH208  # names only; a Path for each would double the cost
        if name.isdecimal() and (directory := _mark_of(name, root))
    ]


def session_of(leader: int) -> set[int]:
    """Return the live processes of the session of `leader`. Reads all of /proc."""
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208  # names only, as above
        with contextlib.suppress(OSError, ValueError):
            if name.isdecimal() and os.getsid(int(name)) == leader:
                found.add(int(name))
    return found


def kill_strays(strays: Iterable[Stray], root: str) -> None:
    """Kill processes that `marked` found, except those whose number was reused."""
    for stray in strays:
        try:
            held = os.pidfd_open(stray.pid)
        except OSError:
            continue
        if _mark_of(str(stray.pid), root) == stray.directory:
            signal_held(held, signal.SIGKILL)
        os.close(held)


def _mark_of(pid: str, root: str) -> str | None:
    try:
        file = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        environment = read_up_to(file, 4 << 20)
    except OSError:
        return None
    finally:
        os.close(file)
    mark = f"\0{MARKER}={root}/".encode()
    _, found, rest = (b"\0" + environment).partition(mark)
    rest, _, _ = rest.partition(b"\0")
    return f"{root}/{rest.decode(errors='replace')}" if found else None


Watched = TypeVar("Watched")
_EVENTS_PER_WAKING: Final = 256


class ExitWatch(Generic[Watched]):
    """Calls `on_exit` with the value given to `add` when that process ends."""

    def __init__(self, on_exit: Callable[[Watched], None]) -> None:
        self._on_exit = on_exit
        self._watched: dict[int, Watched] = {}
        self._epoll = select.epoll()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._wake)

    def add(self, held: int, watched: Watched) -> None:
        """Watch the process of a pidfd, which is closed when the process ends or the watch is closed."""
        self._epoll.register(held, select.EPOLLIN)
        self._watched[held] = watched

    def close(self) -> None:
        """Stop watching. The processes run on."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        for held in self._watched:
            os.close(held)
        self._watched.clear()

    def _wake(self) -> None:
        for held, _ in self._epoll.poll(0, _EVENTS_PER_WAKING):
            watched = self._watched.pop(held)
            self._epoll.unregister(held)
            os.close(held)
            try:
                self._on_exit(watched)
            except Exception as error:
                # One failed handler must not hide the other ends of this round.
                note_failure("handle the ends of processes", error)
