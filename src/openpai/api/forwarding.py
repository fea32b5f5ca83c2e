"""Forward a request to the leader when only the leader can answer it.

Why a job waits and what is free on the nodes is in the leader's memory. Another server forwards such a request with the
caller's own credentials and returns the leader's answer. A forwarded request is not forwarded again: during a change of
leaders two servers may each believe that the other one leads. The request carries the caller's address, sealed, which
the leader uses for its rate limits and the audit log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Final

import httpx
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from openpai.api.client_address import FORWARDED, address_of, sealed_address
from openpai.api.request_ids import HEADER as REQUEST_ID
from openpai.ports.identity import Sealer
from openpai.ports.platform import NotLeading
from openpai.protocol.errors import Unavailable
from openpai.system.tracing import continued

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
_ASKED: Final = frozenset(
    {"authorization", "content-type", "accept", "idempotency-key", "last-event-id", "if-match", "if-none-match"}
)
_ANSWERED: Final = frozenset(
    {
        *("content-type", "content-length", "content-disposition", "location", "link", "etag", "retry-after", "allow"),
        *("x-log-offset", "x-log-end", "x-log-size", "x-accel-buffering"),
    }
)
_PATIENCE: Final = httpx.Timeout(30.0, connect=3.0)
_LOOK_EVERY_S: Final = 1.0
_CONNECTIONS: Final = httpx.Limits(max_connections=64, max_keepalive_connections=16)


class Forwarder:
    """Asks the leader on behalf of callers."""

    def __init__(self, sealer: Sealer, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._sealer = sealer
        self._transport = transport
        self._client: httpx.AsyncClient | None = None

    async def ask(self, request: Request, error: NotLeading) -> Response:
        """Return the leader's answer to a request; raise Unavailable when there is none."""
        if not error.url or FORWARDED in request.headers:
            raise Unavailable("no server leads at the moment", "ask again in a few seconds")
        path = request.scope.get("raw_path", b"").decode("ascii", "replace").partition("?")[0] or request.url.path
        url = httpx.URL(error.url).copy_with(raw_path=_target(path, request.scope["query_string"]))
        mark = FORWARDED, sealed_address(self._sealer, address_of(request.scope))
        number = REQUEST_ID, request.state.request_id
        headers = [*_chosen(request.headers.items(), _ASKED), mark, number, ("accept-encoding", "identity")]
        headers.extend(continued().items())
        if authorization := getattr(request.state, "authorization", ""):
            headers.append(("authorization", authorization))
        forwarded = self._open().build_request(request.method, url, headers=headers, content=await request.body())
        try:
            answer = await self._answer(forwarded, error)
        except httpx.HTTPError:
            raise Unavailable("the server that leads does not answer", "ask again in a few seconds") from None
        # The leader wrote the entry of the audit log.
        request.state.is_forwarded = True
        return StreamingResponse(_content(answer), answer.status_code, dict(_chosen(answer.headers.items(), _ANSWERED)))

    async def _answer(self, forwarded: httpx.Request, error: NotLeading) -> httpx.Response:
        """Return the leader's answer; raise Unavailable once it leads no longer: a paused server may never answer."""
        sending = asyncio.ensure_future(self._open().send(forwarded, stream=True))
        try:
            while not (await asyncio.wait({sending}, timeout=_LOOK_EVERY_S))[0]:
                if error.newest is not None and await error.newest() != error.url:
                    raise Unavailable("another server takes over", "ask again in a few seconds")
            return sending.result()
        finally:
            sending.cancel()

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            # Proxies of the environment are for connections to the Internet, not between our servers.
            self._client = httpx.AsyncClient(
                transport=self._transport, timeout=_PATIENCE, limits=_CONNECTIONS, trust_env=False, verify=True
            )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _target(path: str, query: bytes) -> bytes:
    return path.encode("ascii", "replace") + (b"?" + query if query else b"")


def _chosen(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() in names]


async def _content(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    passed = 0
    try:
        async for chunk in answer.aiter_raw():
            passed += len(chunk)
            if passed > ANSWER_BYTES_MAX:
                raise Unavailable(f"the answer of the leader is larger than {ANSWER_BYTES_MAX} bytes")
            yield chunk
    finally:
        await answer.aclose()
