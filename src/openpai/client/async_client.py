"""The platform as an asynchronous Python library, with the same methods as `Client`.

async with AsyncClient.from_environment() as pai:
    async for job in pai.all_jobs(state="RUNNING"):
        print(job.full_name)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from openpai.client import credentials as kept
from openpai.client import retry
from openpai.client.async_transport import AsyncTransport
from openpai.client.calls.storages import file_path
from openpai.client.calls_core import API, Call, Pages, Pause, Steps
from openpai.client.files import Fetched
from openpai.client.following import Follower
from openpai.client.log_locations import LogPlaces
from openpai.client.model.logs import LogPiece
from openpai.client.nouns import Nouns
from openpai.client.retry import TIMEOUT_S
from openpai.protocol.errors import Unavailable

T = TypeVar("T")


class AsyncStorageFiles:
    """The files of one storage."""

    def __init__(self, wire: AsyncTransport, storage: str) -> None:
        self._wire = wire
        self._storage = storage

    async def write(self, path: str, content: AsyncIterable[bytes]) -> int:
        """Create or replace a file of the storage and return its size."""
        url = API + file_path(self._storage, path)
        try:
            async with self._wire.stream(url, method="PUT", content=content) as response:
                await response.aread()
                return int(response.json()["size"])
        except httpx.TransportError as error:
            raise retry.unreachable(self._wire.url, error) from error

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Yield the content of a file; after a broken connection it continues where it was."""
        state = Fetched()
        while True:
            try:
                async with self._wire.stream(API + file_path(self._storage, path), headers=state.headers()) as response:
                    state.check(response)
                    async for piece in response.aiter_bytes():
                        state.size += len(piece)
                        yield piece
                    return
            except httpx.TransportError as error:
                await self._wire.sleep(state.pause_s(self._wire.url, error))


@dataclass(frozen=True, slots=True)
class AsyncAttemptLogs:
    """The logs of one task attempt."""

    transport: AsyncTransport
    places: LogPlaces

    async def text(
        self,
        stream: str = "all",
        *,
        lines: int | None = None,
        timestamps: bool = False,
        since_ms: int | None = None,
    ) -> str:
        """Return all that is kept of a stream, or its last `lines` lines, at most 8 MiB of them.

        With `timestamps` each line follows the time at which it was seen; `since_ms` skips older lines.
        """
        call = self.places.text(stream, lines, timestamps=timestamps, since_ms=since_ms)
        return (await self.transport.send(call)).text

    async def tail(self, stream: str = "all") -> str:
        """Return the last 16 KiB of a stream."""
        return (await self.transport.send(self.places.tail(stream))).text

    async def follow(self, stream: str = "all") -> AsyncIterator[LogPiece]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        from httpx_sse import EventSource

        follower = Follower(self.transport.url, self.places.uri(stream))
        while True:
            try:
                async with (
                    self.transport.stream(**follower.request()) as response,
                    aclosing(EventSource(response).aiter_sse()) as events,
                ):
                    async for event in events:
                        if (piece := follower.take(event)) is not None:
                            yield piece
                        if follower.is_over:
                            return
                pause_s = follower.ended_early()
            except (httpx.TransportError, Unavailable) as error:
                pause_s = follower.failed(error)
            await self.transport.sleep(pause_s)


class AsyncClient(Nouns):
    """A connection to one platform for one user. Close it, or use it in an `async with`."""

    is_awaited = True

    def __init__(
        self,
        url: str = kept.URL_DEFAULT,
        token: str | None = None,
        *,
        user: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = kept.normal_url(url)
        self.user = user
        self.clock = clock
        self.wire = AsyncTransport(self.url, token, timeout_s=timeout_s, transport=transport, sleep=sleep, clock=clock)

    @classmethod
    def from_environment(cls, url: str | None = None, *, timeout_s: float = TIMEOUT_S) -> AsyncClient:
        """Return a client with the credentials of the latest `pai login`, or of `PAI_URL` and `PAI_TOKEN`."""
        found = kept.load(url)
        return cls(found.url, found.token, user=found.user, timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.wire.close()

    async def ask(self, call: Call[T]) -> T:
        """Send one request and return its answer; for an operation without a method here, create a `Call`."""
        return call.understood(await self.wire.send(call))

    async def proceed(self, steps: Steps[T]) -> T:
        """Carry out steps, which receive any Unavailable, and return their result."""
        answer: Any = None
        failure: Unavailable | None = None
        while True:
            try:
                step = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            failure = None
            if isinstance(step, Pause):
                await self.wire.sleep(step.seconds)
            else:
                try:
                    answer = await self.ask(step)
                except Unavailable as error:
                    failure = error

    async def each(self, pages: Pages[Any, T]) -> AsyncIterator[T]:
        """Yield every item of every page, requesting a page after all items of the previous one."""
        call: Call[Any] | None = pages.first
        while call is not None:
            page = await self.ask(call)
            for item in pages.items(page):
                yield item
            call = pages.after(page)

    def files(self, storage: str) -> AsyncStorageFiles:
        """Return the files of a storage, to be read and written."""
        return AsyncStorageFiles(self.wire, storage)

    async def logs(
        self, name: str, role: str, index: int, *, attempt: int | None = None, job_attempt: int | None = None
    ) -> AsyncAttemptLogs:
        """Return the logs of a task attempt, the newest unless one is named; raise NoTaskLogError if it never began."""
        return AsyncAttemptLogs(self.wire, await self.proceed(self.log_places(name, role, index, attempt, job_attempt)))

    async def follow(self, name: str, role: str, index: int, stream: str = "all") -> AsyncIterator[LogPiece]:
        """Yield what the newest attempt of a task writes until that attempt is over."""
        logs = await self.logs(name, role, index)
        async for piece in logs.follow(stream):
            yield piece
