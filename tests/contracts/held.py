"""Jobs that held something, put into a store by the ways of the platform."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from openpai.access.quotas import Quota
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import Fact, TaskExited, TasksGranted, TaskStarted
from openpai.lifecycle.model import AttemptKey, ExitReport, JobPhase, Plan, RolePlan, TaskId
from openpai.lifecycle.stepping import new_job, step
from openpai.orchestrator.changes import build_change
from openpai.ports.store import Event, JobRecord, NewJob, Saved, Slot
from openpai.protocol.job import JobSpec, Resources, TaskRole
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore

TASK = TaskId("worker", 0)


@dataclass(frozen=True, slots=True)
class Held:
    """One task that held something."""

    user: str
    virtual_cluster: str
    from_ms: int
    to_ms: int | None
    gpus: int = 1
    cpus: int = 2
    memory_mb: int = 1024


SPEC: Final = JobSpec("train", (TaskRole("worker", "image", Resources(1, 1024, 1), ("true",)),))


def new(number: int, held: Held, *quotas: Quota) -> NewJob:
    """Return a submission."""
    id_ = f"{number:032x}"
    job = new_job(id_, Plan((RolePlan("worker", 1, 1, -1, 0),), 0, True), held.from_ms)
    record = JobRecord(job, held.user, f"job-{number}", held.virtual_cluster, 10, SPEC)
    return NewJob(record, "config", held.gpus, Event(id_, held.from_ms, "Submitted", "message", 0), quotas=quotas)


async def run(database: Database, *all_held: Held, first: int = 0) -> list[str]:
    """Let jobs hold things by the ways of the platform; return their ids."""
    store = SqlJobStore(database)
    ids = []
    for number, held in enumerate(all_held, first):
        submission = new(number, held)
        record, job, id_ = submission.record, submission.record.job, submission.record.job.id
        ids.append(id_)
        await store.add_job(submission, None)
        slot = Slot("n1", "10.0.0.1", (), {}, number, "", held.gpus, held.cpus, held.memory_mb)
        granted = TasksGranted(job.attempt, {TASK: number}, held.from_ms)
        record = await _save(store, record, {TASK: slot}, held.from_ms, granted)
        if held.to_ms is not None:
            key, report = AttemptKey(id_, job.attempt, "worker", 0, 0), ExitReport(0)
            ended = TaskExited(key, report, diagnose(report, ""), held.to_ms)
            record = await _save(store, record, {}, held.to_ms, TaskStarted(key, held.from_ms), ended)
            assert record.job.phase is JobPhase.SUCCEEDED
    return ids


async def _save(
    store: SqlJobStore,
    record: JobRecord,
    slots: dict[TaskId, Slot],
    at_ms: int,
    *facts: Fact,
    idle: tuple[tuple[int, int], ...] = (),
) -> JobRecord:
    change = replace(build_change(record, step(record.job, facts), slots, at_ms), idle=idle)
    assert await store.save([change], None) == (Saved.YES,)
    return change.after
