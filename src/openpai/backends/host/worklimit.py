"""Ends tasks that put more into their working directory than a task may.

The system limits that only with rights and file systems that many machines lack, so it is measured now and then: a task
may go beyond the limit for some seconds. What is measured is the whole task directory, on its own disk, and whatever
else a backend says that the task has written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.system.measuring import taken_by
from openpai.system.supervision import supervise

MEASURE_EVERY_S: Final = 5.0
REST: Final = 4
"""How many times longer than measuring takes the pause after it is at least, so that many files cost no processor."""
log: Final = structlog.get_logger(__name__)


def beyond(most: int, place: str = "its working directory") -> ExitReport:
    """Return how a task ends that took more than `most` bytes in `place`."""
    message = f"it put more than {most >> 20} MiB into {place} and was ended"
    return ExitReport(137, ExitReason.DISK_EXCEEDED, message)


class WorkLimit:
    """Measures the directories that `running` returns; calls `end` for each that takes more than `most` bytes."""

    def __init__(
        self,
        most: int,
        running: Callable[[], Iterable[tuple[AttemptKey, str]]],
        end: Callable[[AttemptKey, ExitReport], None],
        every_s: float = MEASURE_EVERY_S,
        elsewhere: Callable[[AttemptKey], Awaitable[int]] | None = None,
    ) -> None:
        """`elsewhere` returns what a task has written into its container, outside of its directory."""
        self._most = most
        self._elsewhere = elsewhere
        self._running = running
        self._end = end
        self._every_s = every_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measure")
        self._task = supervise("measure working directories", self._forever)

    async def close(self) -> None:
        """Stop measuring."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _forever(self) -> None:
        loop = asyncio.get_running_loop()
        took_s = 0.0
        while True:
            await asyncio.sleep(max(self._every_s, REST * took_s))
            began_s = loop.time()
            for key, path in tuple(self._running()):
                await self._measure(key, path)
            took_s = loop.time() - began_s

    async def _measure(self, key: AttemptKey, path: str) -> None:
        loop = asyncio.get_running_loop()
        taken = await loop.run_in_executor(self._thread, taken_by, path, self._most)
        if taken <= self._most and self._elsewhere is not None:
            taken += await self._elsewhere(key)
        if taken > self._most:
            log.info("a task is ended: it wrote more than a task may", attempt=key.path(), bytes_max=self._most)
            place = "its working directory" if self._elsewhere is None else "its working directory and its container"
            self._end(key, beyond(self._most, place))
