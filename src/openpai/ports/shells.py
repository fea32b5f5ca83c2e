"""Commands that users run in a running task, and connections to its ports.

A backend that implements `Shells` starts the command in the task's own confinement: its user, limits, cgroup, files,
environment and working directory. A shell never has a right that its task does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

from openpai.lifecycle.model import AttemptKey
from openpai.protocol.errors import Refused, Unavailable

STDOUT: Final = 1
STDERR: Final = 2
COLUMNS: Final = 80
ROWS: Final = 24
SIZE_MAX: Final = 4096
"""The largest number of columns and rows of a terminal."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """What to run in a task."""

    words: tuple[str, ...] = ()
    """The program and its arguments; empty for a shell: bash where the task has it, otherwise sh."""
    is_terminal: bool = False
    """Whether it runs on a terminal of its own, which merges both outputs."""
    columns: int = COLUMNS
    rows: int = ROWS
    term: str = ""
    """The type of the terminal, for TERM."""

    @property
    def term_or_none(self) -> str:
        """Return the value of TERM; empty without a terminal."""
        return (self.term or "dumb") if self.is_terminal else ""


class Output(NamedTuple):
    """A piece of what a command wrote."""

    stream: int
    """STDOUT or STDERR; always STDOUT on a terminal."""
    data: bytes


class Shell(Protocol):
    """A command that runs in a task. One caller reads; it writes from at most one other."""

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, 128+n after signal n; None until `read` has returned None."""

    async def read(self) -> Output | None:
        """Wait for output and return it; None once the command has ended and all of its output was returned.

        While no caller reads, the command waits as soon as a small buffer is full.
        """

    async def write(self, data: bytes) -> None:
        """Send to standard input, waiting while the command does not read; what an ended command would get is lost."""

    async def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal; do nothing without one."""

    async def close(self) -> None:
        """End the command if it still runs: SIGHUP as when a terminal is closed, then SIGKILL. May be repeated."""


class Stream(Protocol):
    """A TCP connection to a port of a task."""

    async def read(self) -> bytes:
        """Wait for bytes and return them; none at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, waiting while the other side does not read."""

    async def close_write(self) -> None:
        """Say that no more bytes follow."""

    async def close(self) -> None:
        """Close the connection. May be repeated."""


@runtime_checkable
class Shells(Protocol):
    """A backend that can run commands in its tasks."""

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        """Start a command in a running task attempt.

        Raise Refused if the attempt does not run or has no such command, and Unavailable if it cannot be reached now.
        """
        ...

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        """Connect to a TCP port that a running task attempt listens on, also one that only its own loopback reaches.

        Raise Refused if the attempt does not run, and Unavailable if nothing listens there.
        """
        ...


def not_running(key: AttemptKey) -> Refused:
    """Return the error for a task attempt that does not run."""
    message = f"task {key.task.role}-{key.task.index} does not run"
    return Refused("NoRunningTaskError", message, "`pai job show` shows the state of each task")


def is_starting(key: AttemptKey) -> Unavailable:
    """Return the error for a task attempt whose commands have not begun yet."""
    return Unavailable(f"task {key.task.role}-{key.task.index} is still starting", "try again in a few seconds")


class NothingListens(Unavailable):
    """The port of a task accepts no connection."""

    def __init__(self, port: int) -> None:
        message = f"nothing in the task listens on port {port}"
        super().__init__(message, "start the program that serves this port first")


def is_of_others(key: AttemptKey, port: int) -> Unavailable:
    """Return the error for a port that only other programs of the task's machine listen on."""
    task = f"{key.task.role}-{key.task.index}"
    message = f"no process of task {task} listens on port {port}, but another program on its node does"
    return Unavailable(
        message, f"let the program in the task listen on a port of its own, and forward that one of {task}"
    )
