"""Clocks that do not jump when the wall clock is set: the scheduler's, and the timers of retries and time limits.

How long a gang has waited and how long others have run decides what it gets. Jobs keep the wall clock's times, since
people read them; they are converted where they enter the scheduler, and the scheduler's estimates where they leave it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from openpai.lifecycle.model import Job
from openpai.ports.clock import Clock
from openpai.scheduler.model import Wait


class SteadyClock:
    """`ports.clock.Clock` that starts at the wall clock's time, is never set, and knows when jobs were submitted."""

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self._begins_ms = wall.now_ms() - _loop_ms()
        self._submitted_ms: dict[str, int] = {}

    def now_ms(self) -> int:
        """Return the wall clock's time at the start plus the time that has passed since."""
        return self._begins_ms + _loop_ms()

    def submitted_ms(self, job: Job) -> int:
        """Return when a job was submitted; the wall clock is asked once per job, when it is first seen."""
        if job.id not in self._submitted_ms:
            # A job that waited for others has queued since then only.
            is_first = job.plan.is_held_first and job.attempt == 0
            since_ms = job.attempt_at_ms if is_first and job.attempt_at_ms else job.submitted_at_ms
            waited_ms = max(0, self._wall.now_ms() - since_ms)
            self._submitted_ms[job.id] = self.now_ms() - waited_ms
        return self._submitted_ms[job.id]

    def forget(self, job: str) -> None:
        """Forget a job that is over."""
        self._submitted_ms.pop(job, None)

    def dated(self, wait: Wait) -> Wait:
        """Return a reason to wait with its estimate in the wall clock's times."""
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


class Timer(NamedTuple):
    """Something to do at a time of the wall clock, and how long to wait for it at most."""

    job: str
    is_limit: bool
    """Whether it ends the attempt of the job at its time limit; otherwise it is a retry of the job or of its tasks."""
    at_ms: int
    longest_ms: int


class Timers:
    """Remembers, by a clock that is never set, when each timer is due.

    A timer starts when this server first sees it, with the time that is left by the wall clock at that moment, but at
    most `longest_ms`. So a wall clock that is set back delays nothing, and one that is set forward ends nothing early.
    """

    def __init__(self) -> None:
        self._due_at_ms: dict[Timer, int] = {}

    def left_ms(self, timers: Iterable[Timer], now_ms: int, steady_ms: int) -> dict[Timer, int]:
        """Return how long each timer still runs, and forget all others."""
        known = self._due_at_ms
        self._due_at_ms = {
            timer: known[timer] if timer in known else steady_ms + min(max(timer.at_ms - now_ms, 0), timer.longest_ms)
            for timer in timers
        }
        return {timer: due_at_ms - steady_ms for timer, due_at_ms in self._due_at_ms.items()}


def _loop_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)
