"""The connection of a client to one server, written once for the blocking client and for the awaited one.

Everything here is a coroutine; with httpx's blocking client none of them ever suspends (`calls_core.finished`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from openpai.client import retry
from openpai.client.calls_core import Call
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from openpai.client.reading import LogPiece

T = TypeVar("T")


class Connection:
    """Requests to one server with one token, from any number of threads or asyncio tasks."""

    def __init__(
        self,
        url: str,
        http: httpx.Client | httpx.AsyncClient,
        sleep: Callable[[float], Awaitable[None] | None],
        clock: Callable[[], float],
    ) -> None:
        self.url = url
        self._http = http
        self._sleep = sleep
        self._clock = clock

    @property
    def authorization(self) -> dict[str, str]:
        """Return the header that names the user."""
        token = self._http.headers.get("Authorization")
        return {"Authorization": token} if token else {}

    async def close(self) -> None:
        """Close the connections."""
        if isinstance(self._http, httpx.AsyncClient):
            await self._http.aclose()
        else:
            self._http.close()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await _settled(self._sleep(seconds))

    async def send(self, call: Call[Any]) -> httpx.Response:
        """Return the response to a request that succeeded; raise Refused, Unavailable or Broken otherwise."""
        deadline = retry.Deadline(call.within_s, self._clock)
        for attempt in count():
            try:
                sent = self._http.request(**call.sent(), timeout=deadline.timeout(self._http.timeout))
                response: httpx.Response = await _settled(sent)
            except (ValueError, httpx.LocalProtocolError) as error:
                raise retry.unsendable(call, error) from error
            except httpx.TransportError as error:
                await self.sleep(retry.after_failure(self.url, call, attempt, error, left_s=deadline.left_s()))
                continue
            if response.is_success:
                return response
            await self.sleep(retry.after_refusal(call, attempt, response, left_s=deadline.left_s()))
        raise AssertionError("the loop of tries never ends")

    async def ask(self, call: Call[T]) -> T:
        """Send one request and return its answer."""
        return call.understood(await self.send(call))

    async def follow(self, uri: str) -> AsyncGenerator[LogPiece, None]:
        """Yield what a task writes at `uri` until its attempt is over; after a broken connection it continues."""
        # Few commands follow a log; the others do not load this.
        from httpx_sse import EventSource

        from openpai.client.following import Follower

        follower = Follower(self.url, uri)
        while True:
            try:
                async with self._stream("GET", **follower.request()) as response:
                    source = EventSource(response)
                    events = _each(source.aiter_sse() if self._is_awaited else source.iter_sse())
                    async with aclosing(events):
                        async for event in events:
                            if (piece := follower.take(event)) is not None:
                                yield piece
                            if follower.is_over:
                                return
                pause_s = follower.ended_early()
            except (httpx.TransportError, Unavailable) as error:
                pause_s = follower.failed(error)
            await self.sleep(pause_s)

    async def fetch(self, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file; after a broken connection it continues where it was."""
        from openpai.client.following import Fetched

        state = Fetched()
        while True:
            try:
                async with self._stream("GET", url, headers=state.headers()) as response:
                    state.check(response)
                    pieces = _each(response.aiter_bytes() if self._is_awaited else response.iter_bytes())
                    async with aclosing(pieces):
                        async for piece in pieces:
                            state.size += len(piece)
                            yield piece
                    return
            except httpx.TransportError as error:
                await self.sleep(state.pause_s(self.url, error))

    async def put(self, url: str, content: Any, headers: Mapping[str, str] | None = None) -> Any:
        """Send an iterable of bytes, once, and return the answer's JSON; raise httpx's errors of the connection."""
        async with self._stream("PUT", url, content=content, headers=headers) as response:
            await self._read(response)
            return response.json()

    @property
    def _is_awaited(self) -> bool:
        return isinstance(self._http, httpx.AsyncClient)

    async def _read(self, response: httpx.Response) -> None:
        await _settled(response.aread() if self._is_awaited else response.read())

    @asynccontextmanager
    async def _stream(self, method: str, url: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """Open a response for streaming, once; raise like `send`, and httpx's errors while it is read."""
        opened = self._http.stream(method, url, timeout=retry.STREAM_TIMEOUT, **options)
        async with _entered(opened) as response:
            if not response.is_success:
                await self._read(response)
                raise retry.error_of(response)
            yield response


async def _settled(found: T | Awaitable[T]) -> T:
    return await found if isinstance(found, Awaitable) else found


@asynccontextmanager
async def _entered(opened: Any) -> AsyncIterator[httpx.Response]:
    if hasattr(opened, "__aenter__"):
        async with opened as response:
            yield response
    else:
        with opened as response:
            yield response


async def _each(items: Iterator[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
    if isinstance(items, AsyncGenerator):
        async with aclosing(items):
            async for item in items:
                yield item
    elif isinstance(items, Iterator):
        for item in items:
            yield item
