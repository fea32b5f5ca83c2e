"""Sessions in tasks: how many are open, what passes through one, and when one ends.

A session ends with its command or its connection, after a time without a byte in either direction, when its user logs
out or loses the right, and when the server stops. Neither side is read faster than the other one takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from openpai.api import shell_frames as frames
from openpai.api.rate_limits import TooManyRequests
from openpai.api.services import Settings
from openpai.ports.shells import STDOUT, Output, Shell, Stream
from openpai.protocol.errors import PaiError
from openpai.system.supervision import until_first

LOOK_EVERY_S: Final = 15.0
_WAIT_S: Final = 30.0


class OpenSessions:
    """Counts the open sessions of this server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._of_user: Counter[str] = Counter()

    @contextlib.contextmanager
    def one_of(self, user: str) -> Iterator[None]:
        """Count a session; raise TooManyRequests if the user, or this server, has too many."""
        for count, limit, whose in (
            (self._of_user[user], self._settings.shells_per_user, f"user {user} has"),
            (self._of_user.total(), self._settings.shells, "this server has"),
        ):
            if count >= limit:
                message = f"{whose} {count} open sessions in tasks, and {limit} are allowed"
                raise TooManyRequests(f"{message}; close one first", _WAIT_S, limit)
        self._of_user[user] += 1
        try:
            yield
        finally:
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]


class StreamShell:
    """A connection to a port in the form of a command: it writes what it receives, and ends with exit code 0."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.exit_code: int | None = None
        self.write = stream.write
        self.close_stdin = stream.close_write
        self.close = stream.close

    async def read(self) -> Output | None:
        """Wait for bytes and return them; None at the end."""
        data = await self._stream.read()
        if data:
            return Output(STDOUT, data)
        self.exit_code = 0
        return None

    async def resize(self, _columns: int, _rows: int) -> None:
        """Do nothing: there is no terminal."""


class Session:
    """One command, and the WebSocket of its user."""

    def __init__(
        self, websocket: WebSocket, shell: Shell, *, idle_s: float, may_go_on: Callable[[], Awaitable[PaiError | None]]
    ) -> None:
        """`may_go_on` returns why the user may no longer have this session, None while they may."""
        self._websocket = websocket
        self._shell = shell
        self._idle_s = idle_s
        self._may_go_on = may_go_on
        self._loop = asyncio.get_running_loop()
        self._active_at_s = self._loop.time()
        self.ended_by = "disconnected"
        """Why it ended, for the audit log."""

    async def run(self) -> None:
        """Pass everything on until one side ends, then end the other."""
        try:
            results = await until_first(self._outwards(), self._inwards(), self._look())
        finally:
            await asyncio.shield(self._shell.close())
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect | RuntimeError | OSError):
                raise result

    async def _outwards(self) -> None:
        while (piece := await self._shell.read()) is not None:
            self._active_at_s = self._loop.time()
            await self._websocket.send_bytes(frames.output(piece.stream, piece.data))
        self.ended_by = "command"
        await self._finish({"exitCode": self._shell.exit_code})

    async def _inwards(self) -> None:
        while True:
            data = await self._websocket.receive_bytes()
            self._active_at_s = self._loop.time()
            if data[:1] == b"\x00":
                await self._shell.write(data[1:])
            elif data[:1] == b"\x04":
                if (size := frames.size_in(data[1:])) is not None:
                    await self._shell.resize(*size)
            elif data[:1] == b"\xff":
                await self._shell.close_stdin()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self._idle_s))
            if self._loop.time() - self._active_at_s >= self._idle_s:
                self.ended_by = "idle"
                message = f"the session was closed: nothing happened in it for {self._idle_s / 60:g} minutes"
                await self._finish({"code": "IdleSessionError", "message": message})
                return
            if (refused := await self._may_go_on()) is not None:
                self.ended_by = "right lost"
                await self._finish(refused.as_dict())
                return
            # A client that is gone is found by this, also while its command reads nothing and writes nothing.
            await self._websocket.send_bytes(frames.ALIVE)

    async def _finish(self, document: dict[str, Any]) -> None:
        await self._websocket.send_bytes(frames.end(document))
        await self._websocket.close(1000)
