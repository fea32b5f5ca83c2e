"""Requests to one server over persistent connections, retried as `retry` decides, for the asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx

from openpai.client import retry
from openpai.client.calls_core import Call


class AsyncTransport:
    """Sends requests to one server with one token, concurrently for any number of asyncio tasks."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout_s: float = retry.TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.sleep = sleep
        self._clock = clock
        self._http = httpx.AsyncClient(**retry.options(url, token, timeout_s), transport=transport)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call[Any]) -> httpx.Response:
        """Return the response to a request that succeeded; raise Refused, Unavailable or Broken otherwise."""
        deadline = retry.Deadline(call.within_s, self._clock)
        for attempt in count():
            try:
                response = await self._http.request(**call.sent(), timeout=deadline.timeout(self._http.timeout))
            except (ValueError, httpx.LocalProtocolError) as error:
                raise retry.unsendable(call, error) from error
            except httpx.TransportError as error:
                await self.sleep(retry.after_failure(self.url, call, attempt, error, left_s=deadline.left_s()))
                continue
            if response.is_success:
                return response
            await self.sleep(retry.after_refusal(call, attempt, response, left_s=deadline.left_s()))
        raise AssertionError("the loop of tries never ends")

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        content: Any = None,
    ) -> AsyncIterator[httpx.Response]:
        """Open a response for streaming, once; raise like `send`, and httpx's errors while it is read.

        `content` may be an asynchronous iterable of bytes, which is streamed.
        """
        async with self._http.stream(
            method, url, params=params, headers=headers, content=content, timeout=retry.STREAM_TIMEOUT
        ) as response:
            if not response.is_success:
                await response.aread()
                raise retry.error_of(response)
            yield response
