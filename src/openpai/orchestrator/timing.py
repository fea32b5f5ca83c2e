"""The pass that lets what backs off try again when its time has come."""

from __future__ import annotations

from collections.abc import Iterator

from openpai.lifecycle.model import Job, RetryDue, TaskPhase
from openpai.orchestrator.office import Office
from openpai.orchestrator.recording import News, record


async def retry_due(office: Office) -> int | None:
    """Let everything that is due try again; return when the next is due, None when nothing waits."""
    office.nudges.timers.clear()
    now_ms = office.clock.now_ms()
    due: dict[str, News] = {}
    for id_, found in office.desk.records.items():
        if any(at_ms <= now_ms for at_ms in _times(found.job)):
            due[id_] = News((RetryDue(now_ms),))
    if due:
        await record(office, due)
    return min((at_ms for found in office.desk.records.values() for at_ms in _times(found.job)), default=None)


def _times(job: Job) -> Iterator[int]:
    if job.retry_at_ms is not None:
        yield job.retry_at_ms
    if not job.plan.is_gang:
        for task in job.tasks.values():
            if task.phase is TaskPhase.BACKING_OFF and task.retry_at_ms is not None:
                yield task.retry_at_ms
