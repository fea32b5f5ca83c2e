"""The protocol that requests are read by: uvicorn's, which waits for ever for whoever says nothing.

It would also take headers without end, hold all of them in memory and put them together anew with each piece, and let
strangers open connections until the server has no file left to open, for its own work either. What it would answer
itself is answered here in OpenPAI's shape.
"""

from __future__ import annotations

import asyncio
import json
import resource
from http import HTTPStatus
from typing import Any, Final

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openpai.api.gate import SAFE_DATA

HEAD_MAX_BYTES: Final = 128 * 1024
LOOK_S: Final = 30.0
"""A head that is not whole, or a body that has not moved, from one look to the next is given up."""
_log = structlog.get_logger(__name__)


def connections_max() -> int:
    """Return how many connections leave enough of the files this process may open to its own work."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return files * 3 // 4 if files > 0 else 1_000_000


class BoundedHeads(HttpToolsProtocol):
    """Hangs up on who sends address and headers beyond what anybody needs, on who stops, and on one too many."""

    look_s = LOOK_S
    most = connections_max()

    _head_bytes: int | None = None
    """What came of the head after the piece that it began in; None until then."""
    _is_in_head = False
    _heads = 0
    _received_bytes = 0
    _seen: tuple[str, int] | None = None
    """What was waited for at the last look, and how far it had come."""
    _look: asyncio.TimerHandle | None = None
    _told_full_at_s = -LOOK_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look after a connection, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._tell_full()
            self._refuse(503, "UnavailableError", "the server has as many connections as it can hold")
            return
        self._look = self.loop.call_later(self.look_s, self.look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def look(self) -> None:
        """Hang up if what is waited for has come no further since the last look."""
        if self.transport.is_closing():
            return
        awaited = self._awaited()
        if awaited is not None and awaited == self._seen:
            self._refuse(408, "InvalidParametersError", "the request did not come to its end")
            return
        self._seen = awaited
        self._look = self.loop.call_later(self.look_s, self.look)

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._head_bytes, self._is_in_head = None, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count no more: what follows is the body, which has a limit of its own."""
        self._is_in_head = False
        self._heads += 1
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came, and give up where the headers have no end."""
        self._received_bytes += len(data)
        super().data_received(data)
        if not self._is_in_head or self.transport.is_closing():
            return
        self._head_bytes = 0 if self._head_bytes is None else self._head_bytes + len(data)
        if self._head_bytes > HEAD_MAX_BYTES:
            _log.warning("a client sent headers without end", address=self.client[0] if self.client else "local")
            self._refuse(431, "RequestTooLargeError", "the address and the headers of this request have no end")

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(400, "InvalidParametersError", "this is no HTTP request")

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: what a client would rather speak is no news."""

    def _awaited(self) -> tuple[str, int] | None:
        if self._is_in_head or self._is_answered():
            return "head", self._heads
        # A body that we do not take any faster is not the client's fault.
        is_ours = not self.cycle.more_body or self.flow.read_paused
        return None if is_ours else ("body", self._received_bytes)

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, status: int, code: str, message: str) -> None:
        # In the middle of an answer, or before one that is owed, this would be taken for what it is not.
        is_its_own = not self._is_in_head and self.cycle is not None and self.cycle.more_body
        if self._is_answered() or (is_its_own and not self.cycle.response_started):
            self.transport.write(_written(status, {"code": code, "message": message}))
        self.transport.close()

    def _tell_full(self) -> None:
        if self.loop.time() - BoundedHeads._told_full_at_s >= LOOK_S:
            BoundedHeads._told_full_at_s = self.loop.time()
            _log.warning("the server has as many connections as it can hold", most=self.most)


def _written(status: int, document: dict[str, Any]) -> bytes:
    body = json.dumps(document).encode()
    length = b"%d" % len(body)
    headers = [
        *SAFE_DATA,
        (b"content-type", b"application/json"),
        (b"content-length", length),
        (b"connection", b"close"),
    ]
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, HTTPStatus(status).phrase.encode(), b"".join(lines), body)
