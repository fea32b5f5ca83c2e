"""Shells and commands of SSH clients, and what passes through one.

Neither side is read faster than the other one takes: a command whose output is not read waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Final

import asyncssh
import structlog

from openpai.ports.shells import SIZE_MAX, STDERR, Shell, ShellCommand
from openpai.protocol.errors import Broken, PaiError
from openpai.protocol.wording import harmless_line
from openpai.ssh.commands import KEYS, SIGNALS, run_words, signal_words
from openpai.ssh.model import REFUSED
from openpai.ssh.rights import Reached
from openpai.ssh.sessions import DISCONNECTED, Open, Opening, start
from openpai.system.supervision import until_first

PIECE: Final = 32 * 1024
_SHOWN_MAX: Final = 1000
_LEAVE_S: Final = 2.0
_LOST_MAX: Final = 1 << 20
"""How many bytes of a command's output are read when no client is there for them."""
_COMMON: Final = (80, 24)
_log = structlog.get_logger(__name__)


class TaskProcess(asyncssh.SSHServerProcess[bytes]):
    """A session of a client: its command, its terminal, its signals."""

    def __init__(self, connection: Opening, sftp: Callable[..., Any], sftp_version: int) -> None:
        super().__init__(self._serve, sftp, sftp_version, True)
        self._opening = connection
        self._session = Open()
        self._shell: Shell | None = None
        self._reached: Reached | None = None
        self._channel_id = secrets.token_hex(8)
        self._background: set[asyncio.Task[None]] = set()

    def subsystem_requested(self, subsystem: str) -> bool:
        """Return whether there is such a subsystem."""
        return subsystem == "sftp"

    def connection_lost(self, exc: Exception | None) -> None:
        """End the command of a client that is gone."""
        self._session.hang_up()
        super().connection_lost(exc)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Set the size of the terminal."""
        shell = self._shell
        if shell is not None and 1 <= width <= SIZE_MAX and 1 <= height <= SIZE_MAX:
            self._do(shell.resize(width, height))

    def signal_received(self, signal: str) -> None:
        """Send a signal to the command: as a key of its terminal, or to its processes."""
        if self.term_type is not None and signal in KEYS:
            # A key comes after what was typed before it, and discards that.
            super().signal_received(signal)
        elif self._shell is not None and self._reached is not None and signal in SIGNALS:
            self._do(self._signal(signal, self._reached))

    def break_received(self, msec: int) -> bool:
        """Treat a break as an interrupt."""
        self.signal_received("INT")
        return True

    async def _signal(self, signal: str, reached: Reached) -> None:
        helper = await start(self._opening, reached, signal_words(self._channel_id, signal))
        try:
            await helper.close_stdin()
            while await helper.read() is not None:
                pass
        finally:
            await helper.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(PaiError, OSError):
                await work

        task = asyncio.get_running_loop().create_task(quietly())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _serve(self, _process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run what the client asked for, and end the session with its exit code, or with why it was refused."""
        code = REFUSED
        try:
            code = await self._run()
        except PaiError as error:
            if isinstance(error, Broken):
                _log.exception("an SSH session in a task failed")
            self._complain(error.sentence)
        except Exception:
            # What is left uncaught would end the other sessions of the connection, too.
            _log.exception("an SSH session in a task failed")
        with contextlib.suppress(OSError, asyncssh.Error):
            self.exit(code)

    async def _run(self) -> int:
        with self._opening.opened(self._session):
            reached = await self._opening.reach()
            shell = await self._opening.services.rights.platform.shell(reached.key, self._wanted())
            self._shell, self._reached = shell, reached
            try:
                record = self._opening.record(reached, self._described())
                await record.begin()
                try:
                    await self._pass_on(shell)
                finally:
                    await record.end(self._session.ended_by, shell.exit_code)
            finally:
                await asyncio.shield(self._leave(shell))
        if self._session.message:
            self._complain(self._session.message)
        return REFUSED if shell.exit_code is None else shell.exit_code

    async def _leave(self, shell: Shell) -> None:
        """End a command; one without a terminal whose client is gone may first end by itself, at the end of its input.

        Then what it has started in the background goes on, as with any SSH server: an editor finds its own there again.
        """
        if self.term_type is None and self._session.ended_by == DISCONNECTED:
            lost = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await shell.close_stdin()
                    while lost < _LOST_MAX and (piece := await shell.read()) is not None:
                        lost += len(piece.data)
        await shell.close()

    def _wanted(self) -> ShellCommand:
        command = self.command
        words = run_words(self._channel_id, dict(self.env), command)
        if self.term_type is None:
            return ShellCommand(words)
        width, height = self.term_size[:2]
        columns, rows = (width, height) if 1 <= width <= SIZE_MAX and 1 <= height <= SIZE_MAX else _COMMON
        term = self.term_type if self.term_type.replace("-", "").replace(".", "").isalnum() else ""
        return ShellCommand(words, True, columns, rows, term[:64] if term.isascii() else "")

    def _described(self) -> dict[str, Any]:
        command = harmless_line((self.command or "(shell)")[:_SHOWN_MAX])
        return {"command": command, "terminal": self.term_type is not None}

    async def _pass_on(self, shell: Shell) -> None:
        """Pass everything on until the command, its client or the platform ends the session."""
        # The end of the client's input is not the end of the command.
        results = await until_first(self._outwards(shell), self._until_over(), beside=[self._inwards(shell)])
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, OSError | asyncssh.Error):
                raise result

    async def _until_over(self) -> None:
        await self._session.over.wait()

    async def _outwards(self, shell: Shell) -> None:
        while (piece := await shell.read()) is not None:
            self._session.touch()
            writer = self.stderr if piece.stream == STDERR else self.stdout
            writer.write(piece.data)
            await writer.drain()
        self._session.end("command")

    async def _inwards(self, shell: Shell) -> None:
        while True:
            try:
                data = await self.stdin.read(PIECE)
            except asyncssh.SignalReceived as received:
                data = KEYS[received.signal]
            if not data:
                break
            self._session.touch()
            await shell.write(data)
        await shell.close_stdin()

    def _complain(self, text: str) -> None:
        end = b"\r\n" if self.term_type is not None else b"\n"
        with contextlib.suppress(OSError, asyncssh.Error):
            self.stderr.write(b"pai: " + harmless_line(text).encode() + end)
