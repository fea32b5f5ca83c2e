"""Passes a WebSocket on to an application: whole messages, their kind, the subprotocol, and how it closes.

`websockets` frames what is sent and checks what comes, over the stream that also `pai job forward` uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from openpai.applications import headers as passing
from openpai.applications.incoming import Incoming
from openpai.ports.shells import Stream
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import until_first

MESSAGE_MAX: Final = 16 << 20
_OPEN_S: Final = 30.0
_DENIAL_MAX: Final = 64 * 1024
_GOING_AWAY: Final = 1001
_REFUSED: Final = 1008
_CODES: Final = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}) - {1015}


class Denied(Exception):
    """The application answered the handshake with an ordinary answer."""

    def __init__(self, status: int, headers: passing.Headers, body: bytes) -> None:
        super().__init__(status)
        self.status, self.headers, self.body = status, headers, body


class RemoteSocket:
    """The side of a WebSocket that the application sees."""

    def __init__(self, stream: Stream, subprotocols: list[str]) -> None:
        self._stream = stream
        offered = [Subprotocol(one) for one in subprotocols]
        self._protocol = ClientProtocol(
            parse_uri("ws://localhost/"), subprotocols=offered or None, max_size=MESSAGE_MAX
        )

    @property
    def subprotocol(self) -> str | None:
        """Return the subprotocol that the application chose."""
        return self._protocol.subprotocol

    async def open(self, target: bytes, given: passing.Headers) -> None:
        """Do the handshake; raise Denied, or InvalidHandshake for an answer that is none."""
        request = self._protocol.connect()
        del request.headers["Host"]
        wanted = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in given])
        wanted.update(request.headers)
        self._protocol.send_request(Request(target.decode("latin-1"), wanted))
        await self._flush()
        while not (events := self._protocol.events_received()) and not self._protocol.handshake_exc:
            await self._read()
        self._early = events[1:]
        error = self._protocol.handshake_exc
        if isinstance(error, InvalidStatus):
            answer = error.response
            head = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.raw_items()]
            raise Denied(answer.status_code, head, bytes(answer.body or b"")[:_DENIAL_MAX])
        if error is not None:
            raise error

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield what the application sends, until its last frame."""
        pending = [*self._early]
        while True:
            for event in pending:
                if isinstance(event, Frame):
                    yield event
            await self._flush()
            if self._protocol.close_expected() or self._protocol.parser_exc is not None:
                return
            if not await self._read():
                return
            pending = [*self._protocol.events_received()]

    async def send(self, data: str | bytes) -> None:
        """Send a message."""
        if isinstance(data, str):
            self._protocol.send_text(data.encode())
        else:
            self._protocol.send_binary(data)
        await self._flush()

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket."""
        if code == 1005:
            self._protocol.send_close()
        else:
            self._protocol.send_close(code if code in _CODES else _GOING_AWAY, reason[:100])
        await self._flush()

    async def _read(self) -> bool:
        data = await self._stream.read()
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        return bool(data)

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._stream.write(data)


class SocketExchange:
    """One WebSocket between a browser and an application."""

    def __init__(self, incoming: Incoming) -> None:
        self._in = incoming

    async def run(self, stream: Stream) -> None:
        """Pass messages on until one side closes; raise Unavailable or Denied if the application does not open it."""
        remote = RemoteSocket(stream, list(self._in.scope.get("subprotocols", ())))
        try:
            async with asyncio.timeout(_OPEN_S):
                await remote.open(self._in.target(), self._in.headers())
        except (InvalidHandshake, WebSocketException, TimeoutError, OSError, EOFError) as error:
            raise Unavailable(f"the application does not open this WebSocket: {error}", "") from error
        # The request for the connection comes first.
        await self._in.receive()
        await self._in.send({"type": "websocket.accept", "subprotocol": remote.subprotocol, "headers": []})
        await until_first(self._outwards(remote), self._inwards(remote), self._look(remote))

    async def _outwards(self, remote: RemoteSocket) -> None:
        parts: list[bytes] = []
        is_text, size = True, 0
        code, reason = 1006, ""
        async for frame in remote.frames():
            if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                if frame.opcode is not Opcode.CONT:
                    parts, is_text, size = [], frame.opcode is Opcode.TEXT, 0
                parts.append(bytes(frame.data))
                size += len(frame.data)
                if size > MESSAGE_MAX:
                    code, reason = 1009, "the message is too long"
                    break
                if frame.fin:
                    self._in.touch()
                    data = b"".join(parts)
                    parts, size = [], 0
                    kind = {"text": data.decode()} if is_text else {"bytes": data}
                    await self._in.send({"type": "websocket.send", **kind})
            elif frame.opcode is Opcode.CLOSE:
                code = int.from_bytes(frame.data[:2], "big") if len(frame.data) >= 2 else 1000
                reason = bytes(frame.data[2:]).decode("utf-8", "replace")
                break
        # 1006 says that a connection was lost, and cannot be sent.
        await self._in.send({"type": "websocket.close", "code": code if code in _CODES else 1011, "reason": reason})

    async def _inwards(self, remote: RemoteSocket) -> None:
        while True:
            message = await self._in.receive()
            if message["type"] == "websocket.disconnect":
                await remote.close(message.get("code") or 1005, message.get("reason") or "")
                return
            self._in.touch()
            text = message.get("text")
            await remote.send(text if text is not None else message["bytes"])

    async def _look(self, remote: RemoteSocket) -> None:
        await self._in.until_forbidden()
        await remote.close(_GOING_AWAY, "the user may not use the application any more")
        message = {"type": "websocket.close", "code": _REFUSED, "reason": "you may not use it any more"}
        await self._in.send(message)
