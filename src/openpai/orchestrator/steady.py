"""The scheduler's clock: it begins at the time of the wall clock and is never set.

How long a gang has waited and how long others have run decides what it gets, so these must not jump with the wall
clock. Jobs keep the wall clock's times, since people read them; they are converted where they enter the scheduler,
and the scheduler's estimates where they leave it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from openpai.lifecycle.model import Job
from openpai.ports.clock import Clock
from openpai.scheduler.model import Wait


class SteadyClock:
    """`ports.clock.Clock` that goes on evenly however the wall clock is set, and that knows when jobs began to wait."""

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self._begins_ms = wall.now_ms() - _loop_ms()
        self._submitted_ms: dict[str, int] = {}

    def now_ms(self) -> int:
        """Return the wall clock's time at the beginning and what has passed since."""
        return self._begins_ms + _loop_ms()

    def submitted_ms(self, job: Job) -> int:
        """Return when a job was submitted; the wall clock is asked once per job, when it is first seen."""
        if job.id not in self._submitted_ms:
            waited_ms = max(0, self._wall.now_ms() - job.submitted_at_ms)
            self._submitted_ms[job.id] = self.now_ms() - waited_ms
        return self._submitted_ms[job.id]

    def forget(self, job: str) -> None:
        """Forget a job that is over."""
        self._submitted_ms.pop(job, None)

    def dated(self, wait: Wait) -> Wait:
        """Return a reason to wait with its estimate in times of the wall clock, as that is set now."""
        if wait.estimate is None:
            return wait
        ahead_ms = self._wall.now_ms() - self.now_ms()
        earliest_ms, latest_ms = wait.estimate.earliest_ms, wait.estimate.latest_ms
        estimate = replace(
            wait.estimate,
            earliest_ms=None if earliest_ms is None else earliest_ms + ahead_ms,
            latest_ms=None if latest_ms is None else latest_ms + ahead_ms,
        )
        return replace(wait, estimate=estimate)


def _loop_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)
