"""The pass for everything that is due at a time: retries, time limits, and the deadlines of drained nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from openpai.lifecycle.facts import RetryDue, TimeLimitReached
from openpai.lifecycle.model import Job, JobPhase, TaskPhase
from openpai.lifecycle.retries import RetryPolicy
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.drain_deadlines import leaving
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import change_jobs
from openpai.orchestrator.steady_clock import Timer
from openpai.ports.store import JobRecord
from openpai.protocol.wording import exact

_MINUTE_MS: Final = 60_000


async def retry_due(leader: Leader) -> int | None:
    """Do everything that is due; return in how many milliseconds the next is due, None when nothing waits."""
    leader.nudges.timers.clear()
    now_ms = leader.clock.now_ms()
    over = [timer for timer, left_ms in _left(leader, now_ms).items() if left_ms <= 0]
    retries: dict[str, frozenset[int]] = {}
    for timer in over:
        if not timer.is_limit:
            retries[timer.job] = retries.get(timer.job, frozenset()) | {timer.at_ms}
    due = {timer.job: _time_is_up(leader.active.records[timer.job], now_ms) for timer in over if timer.is_limit}
    # A job with a retry that is due now is checked against its time limit in the next pass.
    due |= {job: JobUpdate((RetryDue(now_ms, stamps),)) for job, stamps in retries.items()}
    due = {**leaving(leader, now_ms), **due}
    if due:
        await change_jobs(leader, due)
    # An administrator gave the deadline of a drain by the wall clock, which may be set: check again each minute.
    deadlines = (min(at_ms - now_ms, _MINUTE_MS) for at_ms in leader.sharing.deadlines.values() if at_ms > now_ms)
    return min((*(max(left_ms, 0) for left_ms in _left(leader, now_ms).values()), *deadlines), default=None)


def _left(leader: Leader, now_ms: int) -> dict[Timer, int]:
    """Return the timers of all active jobs, each with the milliseconds that are left."""
    timers = (timer for found in leader.active.records.values() for timer in _timers_of(found, leader.policy))
    return leader.timers.left_ms(timers, now_ms, round(asyncio.get_running_loop().time() * 1000))


def _timers_of(found: JobRecord, policy: RetryPolicy) -> Iterator[Timer]:
    longest_ms = max(policy.delay_max_ms, policy.conflict_delay_max_ms)
    for at_ms in _retry_times(found.job):
        yield Timer(found.job.id, False, at_ms, longest_ms)
    ends_ms = _ends_ms(found)
    if ends_ms is not None:
        yield Timer(found.job.id, True, ends_ms, found.time_limit_ms or 0)


def _retry_times(job: Job) -> Iterator[int]:
    if job.retry_at_ms is not None:
        yield job.retry_at_ms
    if not job.plan.is_gang:
        for task in job.tasks.values():
            if task.phase is TaskPhase.BACKING_OFF and task.retry_at_ms is not None:
                yield task.retry_at_ms


def _ends_ms(found: JobRecord) -> int | None:
    """Return when a running attempt reaches its time limit, None without one."""
    job = found.job
    is_running = job.phase in (JobPhase.STARTING, JobPhase.RUNNING) and job.outcome is None
    if found.time_limit_ms is None or job.attempt_started_at_ms is None or not is_running:
        return None
    return job.attempt_started_at_ms + found.time_limit_ms


def _time_is_up(found: JobRecord, now_ms: int) -> JobUpdate:
    limit_ms = found.time_limit_ms or 0
    minutes = f"{exact(limit_ms / _MINUTE_MS)}"
    number = found.job.attempt + 1
    message = f"attempt {number} reached its time limit of {minutes} minutes and is ended"
    fact = TimeLimitReached(found.job.attempt, now_ms, limit_ms)
    return JobUpdate((fact,), remark=Remark("TimeLimitReached", message))
