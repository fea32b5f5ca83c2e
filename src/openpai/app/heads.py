"""The protocol that requests are read by: uvicorn's, which lets a client send headers without end.

All of them are held in memory, and those that come in pieces are put together anew with each piece, so that a stranger
could keep the server busy with a single request.
"""

from __future__ import annotations

from typing import Final

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_MAX_BYTES: Final = 128 * 1024
_REFUSAL: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_log = structlog.get_logger(__name__)


class BoundedHeads(HttpToolsProtocol):
    """Hangs up on whoever goes on with address and headers beyond what anybody needs."""

    _head_bytes: int | None = None
    """What came of the head after the piece that it began in; None until then."""
    _is_in_head = False

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._head_bytes, self._is_in_head = None, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count no more: what follows is the body, which has a limit of its own."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came, and give up where the headers have no end."""
        super().data_received(data)
        if not self._is_in_head or self.transport.is_closing():
            return
        self._head_bytes = 0 if self._head_bytes is None else self._head_bytes + len(data)
        if self._head_bytes > HEAD_MAX_BYTES:
            self._is_in_head = False
            _log.warning("a client sent headers without end", address=self.client[0] if self.client else "local")
            self.transport.write(_REFUSAL)
            self.transport.close()
