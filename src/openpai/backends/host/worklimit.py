"""Ends tasks that put more into their working directory than a task may.

The system limits that only with rights and file systems that many machines lack, so usage is measured periodically: a
task may exceed the limit for some seconds. The whole task directory is measured, on its own disk, and what the backend
reports that the task has written elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic

import structlog

from openpai.backends.host.attempts import H
from openpai.backends.host.checkpoints import CheckpointDirectories
from openpai.backends.host.register import AttemptRegister
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.system.directory_size import taken_by
from openpai.system.supervision import supervise

MEASURE_EVERY_S: Final = 5.0
_CHECKPOINTS: Final = "its checkpoint directory"
REST: Final = 4
"""The minimal pause after a measurement as a multiple of its duration, so that many files cost little CPU time."""
log: Final = structlog.get_logger(__name__)


def disk_exceeded(most: int, place: str = "its working directory") -> ExitReport:
    """Return the report of a task that exceeded `most` bytes in `place`."""
    return ExitReport(137, ExitReason.DISK_EXCEEDED, f"it put more than {most >> 20} MiB into {place} and was ended")


class WorkLimit(Generic[H]):
    """Measures the directories of running tasks and ends each task that uses more than `most` bytes."""

    def __init__(
        self,
        most: int,
        register: AttemptRegister[H],
        checkpoints: CheckpointDirectories,
        every_s: float = MEASURE_EVERY_S,
        elsewhere: Callable[[H], Awaitable[int]] | None = None,
    ) -> None:
        """`elsewhere` returns how many bytes a task has written outside its directory."""
        self._most = most
        self._checkpoints = checkpoints
        self._elsewhere = elsewhere
        self._register = register
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
            for attempt in self._register:
                if attempt.is_running:
                    await self._measure(attempt)
            took_s = loop.time() - began_s

    async def _measure(self, attempt: H) -> None:
        loop = asyncio.get_running_loop()
        taken = await loop.run_in_executor(self._thread, taken_by, attempt.directory.path, self._most)
        if taken <= self._most and self._elsewhere is not None:
            taken += await self._elsewhere(attempt)
        place = "its working directory" if self._elsewhere is None else "its working directory and its container"
        if taken <= self._most:
            kept = self._checkpoints.path(attempt.key)
            taken, place = await loop.run_in_executor(self._thread, taken_by, kept, self._most), _CHECKPOINTS
        if taken > self._most and attempt.exit is None:
            log.info("a task is ended: it wrote more than a task may", attempt=attempt.key.path(), bytes_max=self._most)
            self._cut_off(attempt, disk_exceeded(self._most, place))

    def _cut_off(self, attempt: H, report: ExitReport) -> None:
        if attempt.directory.report() is not None:
            self._register.cut_off(attempt, None)
            return
        with contextlib.suppress(OSError):
            attempt.directory.write_report(report)
        self._register.cut_off(attempt, report)
