"""Plays commands in simulated tasks: a few programs that show what a terminal and a pipe do.

It knows `echo WORD...`, `cat`, `tty`, `stty size`, `sleep infinity`, `true`, `false`, and `sh -c TEXT` with `exit N` or
`echo WORD... [>&2]` in it. Every other program is missing. A shell without a command reads such lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import STDERR, STDOUT, NothingListens, Output, ShellCommand

_KEPT_MAX: Final = 256 * 1024
_HUNG_UP: Final = 129
_KILLED: Final = 137
_MISSING: Final = 127


class SimulatedShell:
    """A command in a simulated task."""

    def __init__(self, command: ShellCommand, is_over: Callable[[], bool]) -> None:
        self._command = command
        self._is_over = is_over
        self._size = (command.columns, command.rows)
        self._output: list[Output] = []
        self._kept = 0
        self._line = b""
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._ends: int | None = None
        self._code: int | None = None
        self._run(command.words)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None until `read` has returned None."""
        return self._code

    async def read(self) -> Output | None:
        """Wait for output and return it; None once the command has ended."""
        while not self._output and self._ends is None:
            self._changed.clear()
            if self._is_over():
                self.end(_KILLED)
                break
            await self._changed.wait()
        if not self._output:
            self._code = self._ends
            return None
        piece = self._output.pop(0)
        self._kept -= len(piece.data)
        self._has_room.set()
        return piece

    async def write(self, data: bytes) -> None:
        """Send to standard input."""
        if self._ends is not None:
            return
        if self._command.words == ("cat",):
            await self._echo(data)
        elif not self._command.words:
            *lines, self._line = (self._line + data).split(b"\n")
            for line in lines:
                self._run(tuple(line.decode(errors="replace").split()), is_line=True)

    async def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""
        if self._command.words in ((), ("cat",)):
            self.end(0)

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        self._size = (columns, rows)

    async def close(self) -> None:
        """End the command."""
        self.end(_HUNG_UP)
        self._has_room.set()

    def end(self, code: int) -> None:
        """End the command with an exit code, unless it has ended."""
        if self._ends is None:
            self._ends = code
        self._changed.set()

    async def _echo(self, data: bytes) -> None:
        while self._kept + len(data) > _KEPT_MAX and self._kept and self._ends is None:
            self._has_room.clear()
            await self._has_room.wait()
        self._say(data)

    def _run(self, words: tuple[str, ...], *, is_line: bool = False) -> None:
        match words:
            case () | ("cat",) | ("sleep", "infinity"):
                return
            case ("true",) | ("false",):
                self._end_of(0 if words == ("true",) else 1, is_line)
            case ("exit", code):
                self.end(int(code))
            case ("sh", "-c", text):
                self._run_text(text)
            case ("echo", *rest):
                self._say(" ".join(rest).encode() + b"\n")
                self._end_of(0, is_line)
            case ("tty",):
                self._say(b"/dev/pts/0\n" if self._command.is_terminal else b"not a tty\n")
                self._end_of(0 if self._command.is_terminal else 1, is_line)
            case ("stty", "size"):
                self._say(f"{self._size[1]} {self._size[0]}\n".encode())
                self._end_of(0, is_line)
            case _:
                self._say(f"sh: {words[0]}: not found\n".encode(), STDERR)
                self._end_of(_MISSING, is_line)

    def _run_text(self, text: str) -> None:
        words = tuple(text.split())
        if words[:1] == ("echo",):
            stream = STDERR if words[-1] == ">&2" else STDOUT
            self._say(" ".join(words[1:-1] if stream == STDERR else words[1:]).encode() + b"\n", stream)
            self.end(0)
        else:
            self._run(words)

    def _end_of(self, code: int, is_line: bool) -> None:
        if not is_line:
            self.end(code)

    def _say(self, data: bytes, stream: int = STDOUT) -> None:
        if self._command.is_terminal:
            stream, data = STDOUT, data.replace(b"\n", b"\r\n")
        self._output.append(Output(stream, data))
        self._kept += len(data)
        self._changed.set()


class SimulatedStream:
    """A connection to a port of a simulated task, where every port sends back what it receives."""

    def __init__(self) -> None:
        self._shell = SimulatedShell(ShellCommand(("cat",)), lambda: False)

    async def read(self) -> bytes:
        """Wait for bytes and return them; none at the end."""
        piece = await self._shell.read()
        return piece.data if piece else b""

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self._shell.write(data)

    async def close_write(self) -> None:
        """Say that no more bytes follow."""
        await self._shell.close_stdin()

    async def close(self) -> None:
        """Close the connection."""
        await self._shell.close()


class SimulatedShells:
    """The commands in the tasks of one cluster."""

    def __init__(self, runs: Callable[[AttemptKey], bool]) -> None:
        self._runs = runs
        self._open: dict[SimulatedShell, AttemptKey] = {}

    def start(self, key: AttemptKey, command: ShellCommand) -> SimulatedShell:
        """Start a command in a task that runs."""
        for known in [shell for shell in self._open if shell.exit_code is not None]:
            del self._open[known]
        shell = SimulatedShell(command, lambda: not self._runs(key))
        self._open[shell] = key
        return shell

    def connect(self, port: int) -> SimulatedStream:
        """Connect to a port; ports below 1024 have no program."""
        if port < 1024:
            raise NothingListens(port)
        return SimulatedStream()

    def look(self) -> None:
        """End the commands in tasks that have ended."""
        for shell, key in list(self._open.items()):
            if not self._runs(key):
                shell.end(_KILLED)
                del self._open[shell]

    def close(self) -> None:
        """End all commands."""
        for shell in self._open:
            shell.end(_HUNG_UP)
        self._open.clear()
