"""Cache of the task lists of large jobs: ten thousand tasks are ten megabytes and a third of a second to encode.

Many users look at the same large job, and it has mostly not changed since. A list is kept until the job's version
changes. One request at a time computes it, and waiting requests share the result. Small jobs are not cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from openpai.ports.queries import JobRow

TASKS_OF_SMALL: Final = 500
BYTES_MAX: Final = 32 << 20


class TaskCache:
    """Keeps the latest encoded task lists, at most `bytes_max` bytes."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[Hashable, tuple[int, bytes]] = {}
        self._turn = asyncio.Lock()

    async def get(self, row: JobRow, what: Hashable, compute: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return what `compute` returns, or returned for this version of the job or a later one.

        `what` distinguishes the documents of one job.
        """
        if row.tasks_total <= TASKS_OF_SMALL:
            return await compute()
        key = (row.id, row.archived_at_ms, what)
        found = self._newest(key, row.version)
        if found is not None:
            return found
        async with self._turn:
            found = self._newest(key, row.version)
            if found is None:
                found = await compute()
                self._keep(key, row.version, found)
        return found

    def _newest(self, key: Hashable, version: int) -> bytes | None:
        kept_version, message = self._kept.get(key, (-1, b""))
        return message if kept_version >= version else None

    def _keep(self, key: Hashable, version: int, message: bytes) -> None:
        self._kept.pop(key, None)
        self._kept[key] = version, message
        while sum(len(each) for _, each in self._kept.values()) > self._bytes_max:
            # The oldest goes first; a list larger than the whole cache is not kept.
            del self._kept[next(iter(self._kept))]
