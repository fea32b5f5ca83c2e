"""Passes one HTTP request on to an application, and its answer back, piece by piece in both directions.

Neither side is read faster than the other takes what was read, so a file of any size needs a few hundred KiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import h11
from starlette.types import Receive, Scope, Send

from openpai.applications import headers as passing
from openpai.applications.connections import Upstream, Upstreams
from openpai.applications.cookies import Cookies
from openpai.ports.applications import PlacedApplication
from openpai.protocol.errors import Unavailable

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT"})
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
ABORT: Final = "pai.abort"
"""Where the state of a connection has the function that cuts it off."""


class Exchange:
    """One request to an application."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        place: PlacedApplication,
        cookies: Cookies,
        scheme: str,
        touch: Callable[[], None],
        answer_s: float,
        stalled_s: float,
        may_go_on: Callable[[], Awaitable[bool]],
        look_every_s: float,
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._place, self._cookies, self._touch = place, cookies, touch
        self._answer_s, self._stalled_s = answer_s, stalled_s
        self._may_go_on, self._look_every_s = may_go_on, look_every_s
        self._head = self._request(scheme)
        self._has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in self._head.headers)
        self._is_begun = False

    async def run(self, upstreams: Upstreams) -> None:
        """Carry the request out; raise Unavailable if the application gives no answer."""
        # A server may close a connection while it is not used, and only what is harmless twice is sent again.
        is_new = self._has_body or self._scope["method"] not in _SAFE
        upstream = await upstreams.open(self._place, is_new=is_new)
        try:
            try:
                await self._attempt(upstream, upstreams)
            except h11.RemoteProtocolError as error:
                if self._is_begun:
                    raise
                if not upstream.is_used:
                    raise Unavailable(f"the application gave no valid answer: {error}", "") from error
                # The application closed the connection after its last answer.
                await self._attempt(await upstreams.open(self._place, is_new=True), upstreams)
        except h11.RemoteProtocolError as error:
            if not self._is_begun:
                raise Unavailable(f"the application gave no valid answer: {error}", "") from error
            # Only a broken connection shows that the answer is incomplete.
            self._abort()
        except h11.LocalProtocolError as error:
            if not self._is_begun:
                raise Unavailable(f"the request cannot be passed on: {error}", "") from error
            self._abort()

    async def _attempt(self, upstream: Upstream, upstreams: Upstreams) -> None:
        is_whole = False
        try:
            is_whole = await self._carry(upstream)
        finally:
            upstreams.leave(self._place, upstream, is_whole=is_whole)

    async def _carry(self, upstream: Upstream) -> bool:
        """Return whether the whole answer was passed on."""
        inwards = asyncio.create_task(self._inwards(upstream))
        outwards = asyncio.create_task(self._outwards(upstream))
        looks = asyncio.create_task(self._look())
        try:
            # The browser is gone when `inwards` returns, and has lost its right when `looks` does.
            await asyncio.wait({inwards, outwards, looks}, return_when=asyncio.FIRST_COMPLETED)
            if inwards.done() and not outwards.done() and inwards.exception() is not None:
                # An application may answer before it has read the whole body, and then close.
                await asyncio.wait({outwards}, timeout=self._answer_s)
            if looks.done() and not outwards.done():
                self._abort()
        finally:
            for task in (inwards, outwards, looks):
                task.cancel()
            await asyncio.gather(inwards, outwards, looks, return_exceptions=True)
        for task in (outwards, inwards):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return not outwards.cancelled()

    async def _inwards(self, upstream: Upstream) -> None:
        """Send the request, then wait until the browser leaves."""
        await upstream.send(self._head)
        if not self._has_body:
            await upstream.send(h11.EndOfMessage())
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            if not self._has_body:
                continue
            if data := message.get("body", b""):
                self._touch()
                await upstream.send(h11.Data(data=data))
            if not message.get("more_body", False):
                await upstream.send(h11.EndOfMessage())
                self._has_body = False

    async def _outwards(self, upstream: Upstream) -> None:
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await upstream.next()
                while isinstance(answer, h11.InformationalResponse):
                    answer = await upstream.next()
        except TimeoutError as error:
            message = f"the application did not answer within {self._answer_s:g} seconds"
            raise Unavailable(message, "") from error
        if not isinstance(answer, h11.Response):
            raise h11.RemoteProtocolError("the application closed the connection")
        head = passing.outwards(answer.headers, self._cookies, answer.status_code)
        self._is_begun = True
        await self._pass({"type": "http.response.start", "status": answer.status_code, "headers": head})
        while isinstance(event := await upstream.next(), h11.Data):
            self._touch()
            await self._pass({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        if not isinstance(event, h11.EndOfMessage):
            raise h11.RemoteProtocolError("the answer was cut off")
        await self._pass({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass(self, message: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(self._stalled_s):
                await self._send(message)
        except TimeoutError:
            self._abort()
            raise h11.RemoteProtocolError("the browser does not read") from None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._look_every_s)
            if not await self._may_go_on():
                return

    def _abort(self) -> None:
        abort = self._scope.get("state", {}).get(ABORT)
        if abort is not None:
            with contextlib.suppress(OSError):
                abort()

    def _request(self, scheme: str) -> h11.Request:
        given: passing.Headers = self._scope["headers"]
        client = self._scope.get("client")
        head = passing.inwards(
            given, self._cookies, token=self._place.token, scheme=scheme, client=client[0] if client else ""
        )
        lengths = {value.strip() for name, value in given if name == b"content-length"}
        is_chunked = any(name == b"transfer-encoding" for name, _ in given)
        if len(lengths) > 1 or (lengths and is_chunked):
            raise Unavailable("the request says twice how long it is", "")
        head += [(b"transfer-encoding", b"chunked")] if is_chunked else [(b"content-length", one) for one in lengths]
        try:
            return h11.Request(method=self._scope["method"], target=target_of(self._scope), headers=head)
        except h11.LocalProtocolError as error:
            raise Unavailable(f"the request cannot be passed on: {error}", "") from error


def target_of(scope: Scope) -> bytes:
    """Return the path and query of a request as the browser sent them."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path.partition(b"?")[0] + (b"?" + query if query else b"")
