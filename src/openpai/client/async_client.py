"""The platform as an asynchronous Python library, with the same methods as `Client`.

async with AsyncClient.from_environment() as pai:
    async for job in pai.all_jobs(state="RUNNING"):
        print(job.full_name)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from openpai.client import credentials as kept
from openpai.client.async_files import AsyncStorageFiles
from openpai.client.async_logs import AsyncAttemptLogs
from openpai.client.async_transport import AsyncTransport
from openpai.client.calls_core import Call, Pages, Pause, Steps
from openpai.client.model.logs import LogPiece
from openpai.client.nouns import Nouns
from openpai.client.retry import TIMEOUT_S
from openpai.protocol.errors import Unavailable

T = TypeVar("T")


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
