"""Requests to one server over persistent connections, retried as `retry` decides, for the blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import httpx

from openpai.client import retry
from openpai.client.calls_core import Call


class Transport:
    """Sends requests to one server with one token, from any number of threads."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout_s: float = retry.TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.sleep = sleep
        self._clock = clock
        self._http = httpx.Client(**retry.options(url, token, timeout_s), transport=transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[Any]) -> httpx.Response:
        """Return the response to a request that succeeded; raise Refused, Unavailable or Broken otherwise."""
        deadline = retry.Deadline(call.within_s, self._clock)
        for attempt in count():
            try:
                response = self._http.request(**call.sent(), timeout=deadline.timeout(self._http.timeout))
            except (ValueError, httpx.LocalProtocolError) as error:
                raise retry.unsendable(call, error) from error
            except httpx.TransportError as error:
                self.sleep(retry.after_failure(self.url, call, attempt, error, left_s=deadline.left_s()))
                continue
            if response.is_success:
                return response
            self.sleep(retry.after_refusal(call, attempt, response, left_s=deadline.left_s()))
        raise AssertionError("the loop of tries never ends")

    @contextmanager
    def stream(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        content: Any = None,
    ) -> Iterator[httpx.Response]:
        """Open a response for streaming, once; raise like `send`, and httpx's errors while it is read.

        `content` may be an iterable of bytes, which is streamed.
        """
        with self._http.stream(
            method, url, params=params, headers=headers, content=content, timeout=retry.STREAM_TIMEOUT
        ) as response:
            if not response.is_success:
                response.read()
                raise retry.error_of(response)
            yield response
