"""Connections of SSH clients to ports and Unix sockets of a task (`ssh -L`, and ProxyJump to a server in the task).

Only the task itself is reached: a name that is not the task's own loopback is refused, so that no client uses the
gateway to reach other machines.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final, Self

import asyncssh

from openpai.backends.host.relays import RelayStream
from openpai.ports.shells import STDOUT, Shell, Stream
from openpai.protocol.errors import PaiError
from openpai.protocol.wording import harmless_line
from openpai.ssh.commands import socket_words
from openpai.ssh.recording import Recorder
from openpai.ssh.sessions import Open, Opening, connect, start
from openpai.system.supervision import until_first

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "ip6-localhost", ""})
PATH_MAX: Final = 107
"""The longest path of a Unix socket."""


def local_port(host: str, port: int) -> int:
    """Return a port of the task; raise ChannelOpenError for another machine."""
    if host.lower() not in LOOPBACK:
        message = f"{harmless_line(host[:100])} is not the task: forward to localhost, whose ports are the task's"
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, message)
    if not 1 <= port <= 65535:
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, f"{port} is not a port")
    return port


class _Forwarded:
    """A channel of a client, and the stream in the task that belongs to it."""

    def __init__(self, connection: Opening) -> None:
        self._opening = connection
        self._session = Open()
        self._channel: asyncssh.SSHTCPChannel[bytes] | asyncssh.SSHUNIXChannel[bytes] | None = None
        self._stream: Stream | None = None
        self._record: Recorder | None = None
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._running: asyncio.Task[None] | None = None
        self._guarding: asyncio.Task[None] | None = None
        self._stack = contextlib.ExitStack()

    async def _open(self, stream: Stream, record: Recorder) -> None:
        self._stream, self._record = stream, record
        try:
            await record.begin()
        except BaseException:
            await stream.close()
            raise
        self._guarding = asyncio.get_running_loop().create_task(self._guard())

    async def _guard(self) -> None:
        """Close the stream of a channel whose client left before it began."""
        await self._session.over.wait()
        if self._running is None:
            await self._close()

    def connection_made(self, chan: Any) -> None:
        """Begin to pass bytes on."""
        self._channel = chan

    def session_started(self) -> None:
        """Begin to pass bytes on."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection in the task."""
        self._session.hang_up()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Pass bytes of the client on, and read no more while the task does not take them."""
        self._session.touch()
        self._waiting += len(data)
        self._received.put_nowait(data)
        if self._channel is not None:
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        """Pass the end of the client's bytes on; what the task sends is still wanted."""
        self._received.put_nowait(None)
        return True

    def pause_writing(self) -> None:
        """Read no more from the task while the client does not take it."""
        self._has_room.clear()

    def resume_writing(self) -> None:
        """Read from the task again."""
        self._has_room.set()

    async def _run(self) -> None:
        try:
            await until_first(self._outwards(), self._session.over.wait(), beside=[self._inwards()])
        finally:
            self._session.over.set()
            if self._channel is not None:
                self._channel.close()
            await asyncio.shield(self._close())

    async def _outwards(self) -> None:
        assert self._stream is not None  # noqa: S101  # `_open` comes before the channel
        while data := await self._stream.read():
            self._session.touch()
            if self._channel is not None:
                self._channel.write(data)
            await self._has_room.wait()
        if self._channel is not None:
            self._channel.write_eof()
        self._session.ended_by = "task"

    async def _inwards(self) -> None:
        assert self._stream is not None  # noqa: S101  # `_open` comes before the channel
        while (data := await self._received.get()) is not None:
            await self._stream.write(data)
            if self._received.empty() and self._channel is not None:
                self._channel.resume_reading()
        await self._stream.close_write()

    async def _close(self) -> None:
        if self._stream is not None:
            await self._stream.close()
        self._stack.close()
        if self._record is not None:
            await self._record.end(self._session.ended_by, None)


class ForwardedPort(_Forwarded, asyncssh.SSHTCPSession[bytes]):
    """A connection to a port of a task."""

    @classmethod
    async def open(cls, connection: Opening, port: int) -> Self:
        """Connect to a port; raise ChannelOpenError if that cannot be."""
        found = cls(connection)
        with _as_refusals(), contextlib.ExitStack() as stack:
            stack.enter_context(connection.opened(found._session))
            reached = await connection.reach()
            stream = await connect(connection, reached, port)
            await found._open(stream, connection.record(reached, {"port": port}))
            found._stack = stack.pop_all()
        return found


class ForwardedSocket(_Forwarded, asyncssh.SSHUNIXSession[bytes]):
    """A connection to a Unix socket in a task."""

    @classmethod
    async def open(cls, connection: Opening, path: str) -> Self:
        """Connect to a socket; raise ChannelOpenError if that cannot be."""
        if len(path.encode()) > PATH_MAX or "\0" in path:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "this is not the path of a socket")
        found = cls(connection)
        with _as_refusals(), contextlib.ExitStack() as stack:
            stack.enter_context(connection.opened(found._session))
            reached = await connection.reach()
            shell = await start(connection, reached, socket_words(path))
            stream = await _relayed(shell, path)
            await found._open(stream, connection.record(reached, {"socket": harmless_line(path)}))
            found._stack = stack.pop_all()
        return found


async def _relayed(shell: Shell, path: str) -> Stream:
    while (piece := await shell.read()) is not None:
        if piece.stream == STDOUT:
            return RelayStream(shell, piece.data[1:])
    code = shell.exit_code
    await shell.close()
    why = (
        f"there is no socket {harmless_line(path)}" if code == 111 else "the image has none of socat, python3 and nc -U"
    )
    raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, why)


@contextlib.contextmanager
def _as_refusals() -> Any:
    """Turn errors of the platform into refusals of SSH."""
    try:
        yield
    except PaiError as error:
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, harmless_line(error.message)) from error
