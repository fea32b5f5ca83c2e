"""Passes one HTTP request on to an application, and its answer back, piece by piece in both directions.

Neither side is read faster than the other takes what was read, so a file of any size needs a few hundred KiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import h11

from openpai.applications import headers as passing
from openpai.applications.connections import Upstream, Upstreams
from openpai.applications.incoming import Incoming
from openpai.protocol.errors import Unavailable

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT"})
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
ABORT: Final = "pai.abort"
"""Where the state of a connection has the function that cuts it off."""


class Exchange:
    """One request to an application."""

    def __init__(self, incoming: Incoming, *, answer_s: float, stalled_s: float) -> None:
        self._in = incoming
        self._answer_s, self._stalled_s = answer_s, stalled_s
        self._head = self._request()
        self._has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in self._head.headers)
        self._is_begun = False

    async def run(self, upstreams: Upstreams) -> None:
        """Carry the request out; raise Unavailable if the application gives no answer."""
        # A server may close a connection while it is not used, and only what is harmless twice is sent again.
        is_new = self._has_body or self._in.scope["method"] not in _SAFE
        upstream = await upstreams.open(self._in.place, is_new=is_new)
        try:
            try:
                await self._attempt(upstream, upstreams)
            except h11.RemoteProtocolError as error:
                if self._is_begun:
                    raise
                if not upstream.is_used:
                    raise Unavailable(f"the application gave no valid answer: {error}", "") from error
                # The application closed the connection after its last answer.
                await self._attempt(await upstreams.open(self._in.place, is_new=True), upstreams)
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
            upstreams.leave(self._in.place, upstream, is_whole=is_whole)

    async def _carry(self, upstream: Upstream) -> bool:
        """Return whether the whole answer was passed on."""
        inwards = asyncio.create_task(self._inwards(upstream))
        outwards = asyncio.create_task(self._outwards(upstream))
        looks = asyncio.create_task(self._in.until_forbidden())
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
            message = await self._in.receive()
            if message["type"] == "http.disconnect":
                return
            if not self._has_body:
                continue
            if data := message.get("body", b""):
                self._in.touch()
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
        head = passing.outwards(answer.headers, self._in.cookies, answer.status_code)
        self._is_begun = True
        await self._pass({"type": "http.response.start", "status": answer.status_code, "headers": head})
        while isinstance(event := await upstream.next(), h11.Data):
            self._in.touch()
            await self._pass({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        if not isinstance(event, h11.EndOfMessage):
            raise h11.RemoteProtocolError("the answer was cut off")
        await self._pass({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass(self, message: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(self._stalled_s):
                await self._in.send(message)
        except TimeoutError:
            self._abort()
            raise h11.RemoteProtocolError("the browser does not read") from None

    def _abort(self) -> None:
        abort = self._in.scope.get("state", {}).get(ABORT)
        if abort is not None:
            with contextlib.suppress(OSError):
                abort()

    def _request(self) -> h11.Request:
        given: passing.Headers = self._in.scope["headers"]
        head = self._in.headers()
        lengths = {value.strip() for name, value in given if name == b"content-length"}
        is_chunked = any(name == b"transfer-encoding" for name, _ in given)
        if len(lengths) > 1 or (lengths and is_chunked):
            raise Unavailable("the request says twice how long it is", "")
        head += [(b"transfer-encoding", b"chunked")] if is_chunked else [(b"content-length", one) for one in lengths]
        try:
            return h11.Request(method=self._in.scope["method"], target=self._in.target(), headers=head)
        except h11.LocalProtocolError as error:
            raise Unavailable(f"the request cannot be passed on: {error}", "") from error
