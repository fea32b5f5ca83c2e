"""The platform as an asynchronous Python library, with the same methods as `Client`.

async with AsyncClient.from_environment() as pai:
    async for job in pai.all_jobs(state="RUNNING"):
        print(job.full_name)
"""

from __future__ import annotations

import asyncio
from typing import Self, TypeVar

import httpx

from openpai.client.calls_core import Call
from openpai.client.client import Connected
from openpai.client.files import AsyncStorageFiles
from openpai.client.logs import AsyncAttemptLogs

T = TypeVar("T")


class AsyncClient(Connected[httpx.AsyncBaseTransport]):
    """A connection to one platform for one user. Close it, or use it in an `async with`."""

    is_awaited = True
    _http = httpx.AsyncClient
    _sleep = staticmethod(asyncio.sleep)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.wire.close()

    async def ask(self, call: Call[T]) -> T:
        """Send one request and return its answer; for an operation without a method here, create a `Call`."""
        return await self.wire.ask(call)

    def files(self, storage: str) -> AsyncStorageFiles:
        """Return the files of a storage, to be read and written."""
        return AsyncStorageFiles(self.wire, storage)

    async def logs(
        self, name: str, role: str, index: int, *, attempt: int | None = None, job_attempt: int | None = None
    ) -> AsyncAttemptLogs:
        """Return the logs of a task attempt, the newest unless one is named; raise NoTaskLogError if it never began."""
        return AsyncAttemptLogs(self.wire, await self.log_places(name, role, index, attempt, job_attempt))
