"""The applications of active jobs: in which task attempt each of them is, at which port, and with which token."""

from __future__ import annotations

from collections.abc import Iterator

from openpai.lifecycle.model import TASK_FINAL, JobPhase, TaskId, TaskPhase
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.job_keys import token_of
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.orchestrator.recording import change_jobs
from openpai.ports.applications import PlacedApplication
from openpai.ports.store import Event, JobRecord
from openpai.protocol.applications import Application
from openpai.protocol.errors import Refused
from openpai.runtime.applications import applications_of


class ApplicationCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about applications."""

    async def applications(self, job: str | None = None) -> tuple[PlacedApplication, ...]:
        leader = await self._leading()
        records = leader.active.records
        known = leader.active.applications
        if job is not None:
            record = records.get(job)
            return tuple(_placed(leader, record)) if record is not None else ()
        # This is asked every second, and few of thousands of jobs have applications.
        for gone in known.keys() - records.keys():
            del known[gone]
        for new in records.keys() - known.keys():
            known[new] = _known(leader, records[new])
        having = [id_ for id_, (found, _) in known.items() if found]
        return tuple(placed for id_ in having for placed in _placed(leader, records[id_]))

    async def warn(self, job: str, reason: str, message: str) -> None:
        leader = await self._leading()
        record = leader.active.records.get(job)
        if record is not None:
            event = Event(job, self._clock.now_ms(), reason, message, record.job.attempt, is_warning=True)
            await change_jobs(leader, {job: JobUpdate(notes=(event,))})


def _placed(leader: Leader, record: JobRecord) -> Iterator[PlacedApplication]:
    known = leader.active.applications.get(record.job.id)
    if known is None:
        known = leader.active.applications[record.job.id] = _known(leader, record)
    found, token = known
    for application in found:
        id_ = TaskId(application.role, application.index)
        task, slot = record.job.tasks.get(id_), record.slots.get(id_)
        is_running = task is not None and task.phase is TaskPhase.RUNNING
        port = application.port if isinstance(application.port, int) else None
        if port is None and slot is not None:
            port = next(iter(slot.ports.get(str(application.port), ())), None)
        yield PlacedApplication(
            job=record.job.id,
            user=record.user,
            job_name=record.name,
            application=application,
            key=record.job.key(task) if task is not None and is_running else None,
            port=port,
            token=token,
            # While the job ends it may still be tried again.
            is_over=record.job.phase is JobPhase.RUNNING and task is not None and task.phase in TASK_FINAL,
        )


def _known(leader: Leader, record: JobRecord) -> tuple[tuple[Application, ...], str]:
    """Return the applications of a job, and their token."""
    found = applications_of(record.spec)
    try:
        return found, token_of(leader.secrets.open(record.sealed)) if found else ""
    except Refused:
        # Its key is lost: its tasks cannot be started, and what runs already refuses requests without the token.
        return found, ""
