"""Runs one command on a terminal of its own or on three pipes, read and written from the event loop.

Nothing is read before a caller asks, so a command that no caller reads waits, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from openpai.backends.process.processes import DEFAULT_SIGNALS
from openpai.ports.shells import SIZE_MAX, STDERR, STDOUT, Output, ShellCommand
from openpai.protocol.errors import Refused, Unavailable

_PIECE: Final = 64 * 1024
_GRACE_S: Final = 2.0
_END_OF_FILE: Final = b"\x04"


class ProcessShell:
    """A command of this machine, with its streams."""

    def __init__(self, pid: int, sources: Mapping[int, int], sink: int, *, is_terminal: bool) -> None:
        """`sources` has the stream of each open file to read, and `sink` is the file to write."""
        self._loop = asyncio.get_running_loop()
        self._pid = pid
        self._sources = dict(sources)
        self._sink: int | None = sink
        self._is_terminal = is_terminal
        self._held: int | None = os.pidfd_open(pid)
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """Its exit code, once it has ended."""
        self._code: int | None = None
        self._is_closed = False
        self._waits: set[asyncio.Future[None]] = set()
        self._loop.add_reader(self._held, self._reap)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, 128+n after signal n; None until `read` has returned None."""
        return self._code

    async def read(self) -> Output | None:
        """Wait for output and return it; None once the command has ended and all of its output was returned."""
        while True:
            # What a process that it left behind may still write is not awaited.
            was_over = self.ended.done()
            for file in tuple(self._sources):
                data = _read(file)
                if data:
                    return Output(self._sources[file], data)
                if data is not None:
                    self._close_source(file)
            if was_over or self._is_closed:
                self._code = self.ended.result() if self.ended.done() else None
                return None
            await self._readable()

    async def write(self, data: bytes) -> None:
        """Send to standard input; what an ended command would get is lost."""
        rest = memoryview(data)
        while rest and self._sink is not None and not self.ended.done():
            try:
                rest = rest[os.write(self._sink, rest[:_PIECE]) :]
            except BlockingIOError:
                await self._until(self._loop.add_writer, self._loop.remove_writer, (self._sink,))
            except OSError:
                return

    async def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""
        if self._is_terminal:
            await self.write(_END_OF_FILE)
        elif self._sink is not None:
            self._close_sink()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal; the system sends SIGWINCH."""
        if self._is_terminal and self._sink is not None:
            with contextlib.suppress(OSError):
                set_size(self._sink, columns, rows)

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        # Until the process is reaped its number, and that of its group, is its own.
        if self._held is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    async def close(self) -> None:
        """End the command if it still runs, and close its streams."""
        self._is_closed = True
        self._wake_all()
        self.signal(signal.SIGHUP)
        self.signal(signal.SIGCONT)
        self._close_streams()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await asyncio.shield(self.ended)
        self.signal(signal.SIGKILL)

    def _reap(self) -> None:
        if self._held is None:
            return
        self._loop.remove_reader(self._held)
        # The process waits for this, so its number and its group are its own for the last time.
        os.close(self._held)
        self._held = None
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.ended.set_result(code if code >= 0 else 128 - code)
        self._wake_all()

    async def _readable(self) -> None:
        await self._until(self._loop.add_reader, self._loop.remove_reader, tuple(self._sources))

    async def _until(
        self, watch: Callable[..., object], unwatch: Callable[[int], object], files: Sequence[int]
    ) -> None:
        """Wait until one of the files is ready, or the command has ended or is closed."""
        if self.ended.done() or self._is_closed:
            return
        # One future and no task: this is done for each key that a user types.
        ready = self._loop.create_future()
        self._waits.add(ready)
        for file in files:
            watch(file, _wake, ready)
        try:
            await ready
        finally:
            self._waits.discard(ready)
            # The numbers of files that were closed meanwhile may be those of others now.
            if not self._is_closed:
                for file in files:
                    unwatch(file)

    def _wake_all(self) -> None:
        for wait in self._waits:
            _wake(wait)

    def _close_source(self, file: int) -> None:
        del self._sources[file]
        if file != self._sink:
            os.close(file)

    def _close_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None and sink not in self._sources:
            os.close(sink)

    def _close_streams(self) -> None:
        for file in {*self._sources, *([] if self._sink is None else [self._sink])}:
            self._loop.remove_reader(file)
            self._loop.remove_writer(file)
            os.close(file)
        self._sources.clear()
        self._sink = None


def spawn_shell(
    words: tuple[str, ...],
    environment: Mapping[str, str],
    command: ShellCommand,
    *,
    inherited: Sequence[int],
    owner: int | None,
    first_descriptor: int,
) -> ProcessShell:
    """Start a program as the leader of a session, on a terminal that belongs to `owner` or on pipes.

    It inherits the files of `inherited` from `first_descriptor` on.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        if command.is_terminal:
            master, slave = pty.openpty()
            ours.callback(os.close, master)
            theirs.callback(os.close, slave)
            set_size(master, command.columns, command.rows)
            if owner is not None:
                os.fchown(slave, owner, -1)
            # The session is made first, so the terminal that is opened becomes its own.
            actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
                (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ]
            sources, sink = {master: STDOUT}, master
        else:
            (stdin, sink), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
            for file in (sink, out, err):
                ours.callback(os.close, file)
            for file in (stdin, stdout, stderr):
                theirs.callback(os.close, file)
            actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate((stdin, stdout, stderr))]
            sources = {out: STDOUT, err: STDERR}
        # Copies with high numbers first: none of them may be where another one goes.
        copies = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 64) for file in inherited]
        for number, copy in enumerate(copies):
            theirs.callback(os.close, copy)
            actions.append((os.POSIX_SPAWN_DUP2, copy, first_descriptor + number))
        for file in (*sources, sink):
            os.set_blocking(file, False)
        pid = _spawned(words, environment, actions)
        ours.pop_all()
    return ProcessShell(pid, sources, sink, is_terminal=command.is_terminal)


def set_size(terminal: int, columns: int, rows: int) -> None:
    """Set the size of a terminal."""
    columns, rows = (min(max(each, 1), SIZE_MAX) for each in (columns, rows))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _spawned(words: tuple[str, ...], environment: Mapping[str, str], actions: Sequence[object]) -> int:
    try:
        return os.posix_spawn(
            words[0],
            words,
            environment,
            file_actions=actions,  # type: ignore[arg-type]
            setsid=True,
            setsigmask=(),
            setsigdef=DEFAULT_SIGNALS,
        )
    except ValueError as error:
        raise Refused("InvalidParametersError", f"the command cannot be started: {error}") from error
    except OSError as error:
        raise Unavailable(f"the command cannot be started: {error.strerror or error}") from error


def _wake(wait: asyncio.Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)


def _read(file: int) -> bytes | None:
    """Return what can be read now, nothing at the end, and None if it has to be awaited."""
    try:
        return os.read(file, _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        # A terminal that no process has open any more.
        return b""
