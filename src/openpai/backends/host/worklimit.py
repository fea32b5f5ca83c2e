"""Ends tasks that put more into their working directory than a task may.

The system limits that only with rights and file systems that many machines lack, so it is measured now and then: a task
may go beyond the limit for some seconds. What is measured is the whole task directory, on its own disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.system.measuring import taken_by
from openpai.system.supervision import supervise

MEASURE_EVERY_S: Final = 5.0


def beyond(most: int) -> ExitReport:
    """Return how a task ends that took more than `most` bytes."""
    told = f"it put more than {most >> 20} MiB into its working directory and was ended"
    return ExitReport(137, ExitReason.DISK_EXCEEDED, told)


class WorkLimit:
    """Measures the directories that `running` returns; calls `end` for each that takes more than `most` bytes."""

    def __init__(
        self,
        most: int,
        running: Callable[[], Iterable[tuple[AttemptKey, str]]],
        end: Callable[[AttemptKey, ExitReport], None],
        every_s: float = MEASURE_EVERY_S,
    ) -> None:
        self._most = most
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
        while True:
            await asyncio.sleep(self._every_s)
            for key, path in tuple(self._running()):
                if await loop.run_in_executor(self._thread, taken_by, path, self._most) > self._most:
                    self._end(key, beyond(self._most))
