"""Connections of the platform to applications: HTTP/1.1 over the stream that also `pai job forward` uses.

h11 frames what is sent and checks what comes, so a request is exactly one request, whatever its headers say. A
connection is used again where that is safe: on some backends a new one costs the start of a program in the task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import h11

from openpai.lifecycle.model import AttemptKey
from openpai.ports.applications import PlacedApplication
from openpai.ports.shells import Stream
from openpai.protocol.errors import PaiError, Refused, Unavailable

HEAD_MAX: Final = 64 * 1024
IDLE_S: Final = 30.0
KEPT_MAX: Final = 8
"""Unused connections that are kept for one application."""
Connect = Callable[[AttemptKey, int], Awaitable[Stream]]
Place = tuple[AttemptKey, int]


class Upstream:
    """One connection to an application."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_used = False
        """Whether it has carried a request before."""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)

    async def send(self, event: h11.Event) -> None:
        """Send a part of a request, waiting while the application does not read."""
        data = self._http.send(event)
        if data:
            await self.stream.write(data)

    async def next(self) -> h11.Event:
        """Wait for the next part of the answer; raise RemoteProtocolError for what is no HTTP, or was cut off."""
        while True:
            event = self._http.next_event()
            if event is h11.PAUSED:
                raise h11.RemoteProtocolError("the application switched to another protocol")
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            self._http.receive_data(await self.stream.read())

    def can_be_used_again(self) -> bool:
        """Prepare for the next request; return whether there can be one."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        if self._http.trailing_data[0]:
            # The beginning of an answer that no request has asked for.
            return False
        self._http.start_next_cycle()
        self.is_used = True
        return True


@dataclass(slots=True)
class Upstreams:
    """The connections to all applications, within a limit for each of them."""

    connect: Connect
    per_application: int
    _kept: dict[Place, list[tuple[Upstream, asyncio.TimerHandle]]] = field(default_factory=dict)
    _open: Counter[Place] = field(default_factory=Counter)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self, place: PlacedApplication, *, is_new: bool = False) -> Upstream:
        """Return a connection; raise Unavailable if there is none to be had, or too many are open."""
        at = _at(place)
        if not is_new and (kept := self._kept.get(at)):
            found, timer = kept.pop()
            timer.cancel()
            self._open[at] += 1
            return found
        if self._open[at] >= self.per_application:
            message = f"the application answers {self._open[at]} requests at the same time already"
            raise Unavailable(message, "close other pages of it, and try again")
        self._open[at] += 1
        try:
            return Upstream(await self.connect(*at))
        except BaseException:
            self._left(at)
            raise

    def leave(self, place: PlacedApplication, upstream: Upstream, *, is_whole: bool) -> None:
        """Keep a connection for the next request, or close it; `is_whole` says that its answer was read to the end."""
        at = _at(place)
        self._left(at)
        kept = self._kept.setdefault(at, [])
        if is_whole and len(kept) < KEPT_MAX and upstream.can_be_used_again():
            timer = asyncio.get_running_loop().call_later(IDLE_S, self._forget, at, upstream)
            kept.append((upstream, timer))
        else:
            self._close(upstream)
        if not kept:
            del self._kept[at]

    async def close(self) -> None:
        """Close all unused connections."""
        for at in list(self._kept):
            for upstream, timer in self._kept.pop(at):
                timer.cancel()
                self._close(upstream)
        if self._closing:
            await asyncio.wait(self._closing, timeout=2)

    def _left(self, at: Place) -> None:
        self._open[at] -= 1
        if not self._open[at]:
            del self._open[at]

    def _forget(self, at: Place, upstream: Upstream) -> None:
        kept = [each for each in self._kept.pop(at, []) if each[0] is not upstream]
        if kept:
            self._kept[at] = kept
        self._close(upstream)

    def _close(self, upstream: Upstream) -> None:
        task = asyncio.get_running_loop().create_task(_closed(upstream.stream))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _at(place: PlacedApplication) -> Place:
    if place.key is None or place.port is None:
        raise Refused("NoRunningTaskError", f"application {place.application.name} does not run")
    return place.key, place.port


async def _closed(stream: Stream) -> None:
    with contextlib.suppress(OSError, PaiError):
        await stream.close()


@contextlib.asynccontextmanager
async def asked(
    upstreams: Upstreams, place: PlacedApplication, path: str, within_s: float
) -> AsyncGenerator[Any, None]:
    """Yield the answer of an application to a GET of our own, as its status and a function that reads its body."""
    upstream = await upstreams.open(place, is_new=True)
    try:
        async with asyncio.timeout(within_s):
            await upstream.send(h11.Request(method="GET", target=path, headers=_own_headers(place)))
            await upstream.send(h11.EndOfMessage())
            answer = await upstream.next()
            while isinstance(answer, h11.InformationalResponse):
                answer = await upstream.next()
            if not isinstance(answer, h11.Response):
                raise h11.RemoteProtocolError("the application did not answer")
            yield answer.status_code, upstream
    finally:
        upstreams.leave(place, upstream, is_whole=False)


def _own_headers(place: PlacedApplication) -> list[tuple[str, str]]:
    headers = [("host", "localhost"), ("accept", "*/*"), ("connection", "close"), ("user-agent", "openpai")]
    return [*headers, ("authorization", f"Bearer {place.token}")] if place.token else headers


async def body_of(upstream: Upstream, most: int) -> bytes:
    """Return the body of an answer; raise RemoteProtocolError beyond `most` bytes."""
    found = bytearray()
    while isinstance(event := await upstream.next(), h11.Data):
        found += event.data
        if len(found) > most:
            raise h11.RemoteProtocolError("the answer is too long")
    return bytes(found)
