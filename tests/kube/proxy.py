"""A proxy before an API server that does to watches what networks, load balancers and busy servers do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, Self

from aiohttp import ClientError, ClientResponse, ClientSession, TCPConnector, web

from openpai.kube.config import ClusterAccess
from openpai.kube.objects.meta import PROTOBUF

_GONE: Final[dict[str, Any]] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version: 1 (2)",
    "reason": "Expired",
    "code": 410,
}
_ASKED_WITH: Final = ("Accept", "Accept-Encoding", "Content-Type")
_PASSED_ON: Final = ("Content-Type", "Retry-After")


class BadProxy:
    """An HTTP server that passes requests on, and fails as a test asks. Use it as an asynchronous context."""

    def __init__(self, access: ClusterAccess) -> None:
        self.gone_by_status = 0
        """How many of the next watches are refused with HTTP 410."""
        self.refused: tuple[int, int, str] = (0, 503, "")
        """How many of the next requests are refused, with which status, and Retry-After."""
        self.holds_bookmarks = False
        self.is_frozen = False
        """Whether streams stay open, and nothing more comes."""
        self.cuts_lines = False
        """Whether events come in small pieces, with pauses."""
        self.requests: list[tuple[str, str]] = []
        self.ended = {"reset": 0, "gone in the stream": 0, "gone by status": 0}
        self._access = access
        self._streams: dict[web.StreamResponse, tuple[web.Request, ClientResponse]] = {}
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._session = ClientSession(connector=TCPConnector(ssl=self._access.tls(), limit=0), auto_decompress=False)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_frozen = False
        self.reset()
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    @property
    def access(self) -> ClusterAccess:
        """Return the access to the API server through the proxy."""
        return ClusterAccess(server=f"http://127.0.0.1:{self.port}")

    @property
    def watches(self) -> int:
        """Return how many watches are open."""
        return len(self._streams)

    def reset(self) -> None:
        """Reset every connection that carries a watch, in the middle of whatever it carries."""
        for request, _ in self._streams.values():
            if request.transport is not None:
                request.transport.abort()
                self.ended["reset"] += 1

    async def end_with_410(self) -> None:
        """End every watch as the API server does that has lost its version: with an event in the stream."""
        for answer, (_, found) in list(self._streams.items()):
            line = _gone_event(is_protobuf=found.content_type == PROTOBUF)
            with contextlib.suppress(ConnectionError, RuntimeError):
                await answer.write(line)
                await answer.write_eof()
                self.ended["gone in the stream"] += 1
            # Until what answers it has ended, the next request on this connection would wait.
            found.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        count, status, retry_after = self.refused
        if count:
            self.refused = (count - 1, status, retry_after)
            return web.json_response({"code": status}, status=status, headers={"Retry-After": retry_after})
        is_watch = request.query.get("watch") == "1"
        if is_watch and self.gone_by_status:
            self.gone_by_status -= 1
            self.ended["gone by status"] += 1
            return web.json_response(_GONE, status=410)
        assert self._session is not None
        url = self._access.server + request.path_qs
        headers = {key: value for key, value in request.headers.items() if key in _ASKED_WITH}
        body = await request.read()
        async with self._session.request(request.method, url, data=body, headers=headers) as found:
            if is_watch and found.status == 200:
                return await self._stream(request, found)
            kept = {key: found.headers[key] for key in _PASSED_ON if key in found.headers}
            return web.Response(body=await found.read(), status=found.status, headers=kept)

    async def _stream(self, request: web.Request, found: ClientResponse) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.content_type = found.content_type
        await answer.prepare(request)
        self._streams[answer] = request, found
        with contextlib.suppress(ConnectionError, RuntimeError, ClientError):
            parts_of = _frames if found.content_type == PROTOBUF else _lines
            async with contextlib.aclosing(parts_of(found)) as parts:
                await self._send(parts, answer)
        self._streams.pop(answer, None)
        return answer

    async def _send(self, lines: AsyncIterator[bytes], answer: web.StreamResponse) -> None:
        async for line in lines:
            if self.holds_bookmarks and b"BOOKMARK" in line[:40]:
                continue
            for piece in self._pieces(line):
                while self.is_frozen:  # noqa: ASYNC110  # set from outside, for a moment
                    await asyncio.sleep(0.02)
                await answer.write(piece)
                if self.cuts_lines:
                    await asyncio.sleep(0.001)

    def _pieces(self, line: bytes) -> list[bytes]:
        if not self.cuts_lines:
            return [line]
        size = max(1, len(line) // random.randint(1, 9))
        return [line[start : start + size] for start in range(0, len(line), size)]


async def _lines(found: ClientResponse) -> AsyncGenerator[bytes]:
    rest = b""
    async for chunk in found.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"


async def _frames(found: ClientResponse) -> AsyncGenerator[bytes]:
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            length = await found.content.readexactly(4)
            yield length + await found.content.readexactly(int.from_bytes(length, "big"))


def _gone_event(*, is_protobuf: bool) -> bytes:
    if not is_protobuf:
        return json.dumps({"type": "ERROR", "object": _GONE}).encode() + b"\n"
    # The fields of metav1.Status, in the envelope of an object, in that of an event.
    status = _field(3, _GONE["message"].encode()) + _field(4, _GONE["reason"].encode()) + b"\x30\x9a\x03"
    event = _field(1, b"ERROR") + _field(2, _field(1, b"k8s\0" + _field(2, status)))
    return len(event).to_bytes(4, "big") + event


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content
