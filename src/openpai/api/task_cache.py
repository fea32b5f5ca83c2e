"""The tasks of large jobs, as they were told last: ten thousand of them are ten megabytes and a third of a second.

Many people look at the same large job, again and again, and mostly nothing has changed since. So what was told is kept
as long as the job's version stays, and one request at a time works it out: those that wait meanwhile are given what it
found. Small jobs pass by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from openpai.ports.queries import JobRow

TASKS_OF_SMALL: Final = 500
BYTES_MAX: Final = 32 << 20


class TaskCache:
    """Keeps at most `bytes_max` of what was told about tasks, the latest."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[Hashable, tuple[int, bytes]] = {}
        self._turn = asyncio.Lock()

    async def describe(self, row: JobRow, what: Hashable, tell: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return what `tell` returns of the tasks of a job, or returned of this version or a later one.

        `what` distinguishes what is told about one job, and to whom.
        """
        if row.tasks_total <= TASKS_OF_SMALL:
            return await tell()
        key = (row.id, row.archived_at_ms, what)
        found = self._newest(key, row.version)
        if found is not None:
            return found
        async with self._turn:
            found = self._newest(key, row.version)
            if found is None:
                found = await tell()
                self._keep(key, row.version, found)
        return found

    def _newest(self, key: Hashable, version: int) -> bytes | None:
        kept_version, message = self._kept.get(key, (-1, b""))
        return message if kept_version >= version else None

    def _keep(self, key: Hashable, version: int, message: bytes) -> None:
        self._kept.pop(key, None)
        self._kept[key] = version, message
        while sum(len(each) for _, each in self._kept.values()) > self._bytes_max:
            # The oldest goes first, and what is larger than everything together is not kept at all.
            del self._kept[next(iter(self._kept))]
