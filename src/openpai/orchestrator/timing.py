"""The pass for what happens by the clock: what backs off tries again, what ran for too long is stopped, and
drained nodes are left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from openpai.lifecycle.model import Job, JobPhase, RetryDue, TaskPhase, TimeLimitReached
from openpai.lifecycle.policy import RetryPolicy
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.draining import leaving
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import change_jobs
from openpai.orchestrator.waiting import Wait
from openpai.ports.store import JobRecord

_MINUTE_MS: Final = 60_000


async def retry_due(leader: Leader) -> int | None:
    """Do everything that is due; return in how many milliseconds the next is due, None when nothing waits."""
    leader.nudges.timers.clear()
    now_ms = leader.clock.now_ms()
    over = [wait for wait, left_ms in _left(leader, now_ms).items() if left_ms <= 0]
    retries: dict[str, frozenset[int]] = {}
    for wait in over:
        if not wait.is_limit:
            retries[wait.job] = retries.get(wait.job, frozenset()) | {wait.at_ms}
    due = {wait.job: _time_is_up(leader.active.records[wait.job], now_ms) for wait in over if wait.is_limit}
    # A job of which something tries again now meets its time limit in the next pass.
    due |= {job: JobUpdate((RetryDue(now_ms, stamps),)) for job, stamps in retries.items()}
    due = {**leaving(leader, now_ms), **due}
    if due:
        await change_jobs(leader, due)
    # Somebody said until what o'clock a node is drained: that is a matter of the wall clock, which may be set.
    deadlines = (min(at_ms - now_ms, _MINUTE_MS) for at_ms in leader.sharing.deadlines.values() if at_ms > now_ms)
    return min((*(max(left_ms, 0) for left_ms in _left(leader, now_ms).values()), *deadlines), default=None)


def _left(leader: Leader, now_ms: int) -> dict[Wait, int]:
    """Return what is waited for and how long it still takes."""
    waits = (wait for found in leader.active.records.values() for wait in _waits_of(found, leader.policy))
    return leader.waits.left_ms(waits, now_ms, round(asyncio.get_running_loop().time() * 1000))


def _waits_of(found: JobRecord, policy: RetryPolicy) -> Iterator[Wait]:
    longest_ms = max(policy.delay_max_ms, policy.conflict_delay_max_ms)
    for at_ms in _times(found.job):
        yield Wait(found.job.id, False, at_ms, longest_ms)
    ends_ms = _ends_ms(found)
    if ends_ms is not None:
        yield Wait(found.job.id, True, ends_ms, found.time_limit_ms or 0)


def _times(job: Job) -> Iterator[int]:
    if job.retry_at_ms is not None:
        yield job.retry_at_ms
    if not job.plan.is_gang:
        for task in job.tasks.values():
            if task.phase is TaskPhase.BACKING_OFF and task.retry_at_ms is not None:
                yield task.retry_at_ms


def _ends_ms(found: JobRecord) -> int | None:
    """Return when an attempt that runs has run for as long as it may."""
    job = found.job
    is_running = job.phase in (JobPhase.STARTING, JobPhase.RUNNING) and job.outcome is None
    if found.time_limit_ms is None or job.attempt_started_at_ms is None or not is_running:
        return None
    return job.attempt_started_at_ms + found.time_limit_ms


def _time_is_up(found: JobRecord, now_ms: int) -> JobUpdate:
    limit_ms = found.time_limit_ms or 0
    minutes = f"{limit_ms / _MINUTE_MS:g}"
    number = found.job.attempt + 1
    message = f"attempt {number} ran for as long as it may, its time limit of {minutes} minutes, and is ended"
    fact = TimeLimitReached(found.job.attempt, now_ms, limit_ms)
    return JobUpdate((fact,), remark=Remark("TimeLimitReached", message))
