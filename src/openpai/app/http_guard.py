"""Uvicorn's HTTP protocol with limits on time, size and number of connections.

By itself uvicorn waits for ever for a silent client, reads headers without end, and lets one client open connections
until the server can open no more files. Its own error answers are replaced by answers in OpenPAI's shape.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from openpai.api.gate import SAFE_DATA
from openpai.app.connection_limits import Connections, networks, raise_file_limit
from openpai.protocol.errors import Refused

HEAD_MAX_BYTES: Final = 128 * 1024
LOOK_S: Final = 5.0
"""Headers that are incomplete for a whole interval end the connection: they have 5 to 10 seconds."""
BODY_LOOKS: Final = 6
"""The number of intervals in a row for which a body may be slow."""
BODY_LEAST_BYTES_PER_S: Final = 500
WARN_EVERY_S: Final = 30.0
_log = structlog.get_logger(__name__)


class BoundedHeads(HttpToolsProtocol):
    """Disconnects clients that send headers without end, stop or trickle, or open too many connections."""

    look_s = LOOK_S
    body_looks = BODY_LOOKS
    bounds: Connections | None = None
    """None for no limits."""

    _head_bytes: int | None = None
    """Bytes of the headers after the chunk they began in; None before that."""
    _is_in_head = False
    _heads = 0
    _received_bytes = 0
    _seen: tuple[str, int] | None = None
    """What the connection waited for at the last check, and its progress."""
    _slow_looks = 0
    _look: asyncio.TimerHandle | None = None
    _warned_at_s = -WARN_EVERY_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it."""
        super().connection_made(transport)
        refusal = self.bounds.enter(self._address()) if self.bounds else None
        if refusal is not None:
            self._report(refusal)
            is_full = refusal.code == "UnavailableError"
            self._refuse(503 if is_full else 429, refusal.code, refusal.sentence)
            return
        self._look = self.loop.call_later(self.look_s, self.look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking the connection."""
        if self._look is not None:
            self._look.cancel()
        if self.bounds is not None:
            self.bounds.leave(self._address())
        super().connection_lost(exc)

    def look(self) -> None:
        """Disconnect if the request made no progress since the last check, or too little for too long."""
        if self.transport.is_closing():
            return
        awaited = self._awaited()
        if self._is_too_slow(awaited):
            self._refuse(408, "InvalidParametersError", "the request was not complete in time")
            return
        self._seen = awaited
        self._look = self.loop.call_later(self.look_s, self.look)

    def _is_too_slow(self, awaited: tuple[str, int] | None) -> bool:
        is_same = awaited is not None and self._seen is not None and awaited[0] == self._seen[0]
        if awaited is None or self._seen is None or not is_same:
            self._slow_looks = 0
            return False
        progress = awaited[1] - self._seen[1]
        if awaited[0] == "head":
            return not progress
        is_slow = progress < BODY_LEAST_BYTES_PER_S * min(self.look_s, LOOK_S)
        self._slow_looks = self._slow_looks + 1 if is_slow else 0
        return self._slow_looks >= self.body_looks

    def on_message_begin(self) -> None:
        """Start to count the bytes of headers."""
        self._head_bytes, self._is_in_head = None, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop counting: the body follows, which has its own limit."""
        self._is_in_head = False
        self._heads += 1
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Process received bytes, and disconnect a client whose headers are too long."""
        self._received_bytes += len(data)
        super().data_received(data)
        if not self._is_in_head or self.transport.is_closing():
            return
        self._head_bytes = 0 if self._head_bytes is None else self._head_bytes + len(data)
        if self._head_bytes > HEAD_MAX_BYTES:
            _log.warning("a client sent too many headers", address=self.client[0] if self.client else "local")
            self._refuse(431, "RequestTooLargeError", "the URL and the headers of this request are too long")

    def send_400_response(self, msg: str) -> None:
        """Refuse anything that is not HTTP."""
        self._refuse(400, "InvalidParametersError", "this is not an HTTP request")

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to a WebSocket, which counts as a connection of its address until it ends."""
        if self._look is not None:
            self._look.cancel()
        address = self._address()
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        if isinstance(protocol, BoundedSocket) and self.bounds is not None:
            protocol.left = partial(self.bounds.leave, address)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the protocol that a client prefers does not matter."""

    def _awaited(self) -> tuple[str, int] | None:
        if self._is_in_head or self._is_answered():
            return "head", self._heads
        # If the server reads slowly, a slow body is not the client's fault.
        is_ours = not self.cycle.more_body or self.flow.read_paused
        return None if is_ours else ("body", self._received_bytes)

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, status: int, code: str, message: str) -> None:
        # In the middle of an answer, or before a pending one, the client would misread this.
        is_its_own = not self._is_in_head and self.cycle is not None and self.cycle.more_body
        if self._is_answered() or (is_its_own and not self.cycle.response_started):
            self.transport.write(_written(status, {"code": code, "message": message}))
        self.transport.close()

    def _address(self) -> str:
        return self.client[0] if self.client else "local"

    def _report(self, refusal: Refused) -> None:
        # Rarely: a client that floods the server must not flood its log.
        if self.loop.time() - BoundedHeads._warned_at_s >= WARN_EVERY_S:
            BoundedHeads._warned_at_s = self.loop.time()
            _log.warning("a connection was refused", reason=refusal.message, address=self._address())


class BoundedSocket(WebSocketsSansIOProtocol):
    """A WebSocket that counts as a connection of its address."""

    left: Callable[[], None] | None = None
    """Called when it ends."""

    async def send(self, message: Any) -> None:
        """Send a message of the application; a refusal is a whole answer, after which no handshake is missing."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        left, self.left = self.left, None
        if left is not None:
            left()
        super().connection_lost(exc)


def bounded_heads(per_address: int, trusted: Iterable[str]) -> type[BoundedHeads]:
    """Return the protocol class of one server, with limits that fit the open files of this process."""
    bounds = Connections(files=raise_file_limit(), per_address=per_address, trusted=networks(trusted))
    return type("CountedHeads", (BoundedHeads,), {"bounds": bounds})


def _written(status: int, document: dict[str, Any]) -> bytes:
    body = json.dumps(document).encode()
    length = b"%d" % len(body)
    headers = [
        *SAFE_DATA,
        (b"content-type", b"application/json"),
        (b"content-length", length),
        (b"connection", b"close"),
        *([(b"retry-after", b"%d" % WARN_EVERY_S)] if status in (429, 503) else []),
    ]
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, HTTPStatus(status).phrase.encode(), b"".join(lines), body)
