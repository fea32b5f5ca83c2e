"""The pass for what happens by the clock: what backs off tries again, what ran for too long is stopped, and
drained nodes are left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from openpai.lifecycle.model import Job, JobPhase, RetryDue, TaskPhase, TimeLimitReached
from openpai.orchestrator.draining import leaving
from openpai.orchestrator.office import Office
from openpai.orchestrator.recording import News, record
from openpai.ports.store import JobRecord

_MINUTE_MS: Final = 60_000


async def retry_due(office: Office) -> int | None:
    """Do everything that is due; return when the next is due, None when nothing waits."""
    office.nudges.timers.clear()
    now_ms = office.clock.now_ms()
    due: dict[str, News] = {}
    for id_, found in office.desk.records.items():
        if any(at_ms <= now_ms for at_ms in _times(found.job)):
            due[id_] = News((RetryDue(now_ms),))
        elif (ends_ms := _ends_ms(found)) is not None and ends_ms <= now_ms:
            due[id_] = _time_is_up(found, now_ms)
    due = {**leaving(office, now_ms), **due}
    if due:
        await record(office, due)
    deadlines = (at_ms for at_ms in office.sharing.deadlines.values() if at_ms > now_ms)
    of_jobs = (at_ms for found in office.desk.records.values() for at_ms in (*_times(found.job), _ends_ms(found)))
    found_times = (*of_jobs, *deadlines)
    return min((at_ms for at_ms in found_times if at_ms is not None), default=None)


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


def _time_is_up(found: JobRecord, now_ms: int) -> News:
    limit_ms = found.time_limit_ms or 0
    minutes = f"{limit_ms / _MINUTE_MS:g}"
    number = found.job.attempt + 1
    told = f"attempt {number} ran for as long as it may, its time limit of {minutes} minutes, and is ended"
    return News((TimeLimitReached(found.job.attempt, now_ms, limit_ms),), remark=("TimeLimitReached", told))
