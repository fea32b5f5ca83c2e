"""Between jobs and the scheduler's gangs: which tasks are placed together, and under which name.

All tasks of a gang job form one gang per job attempt; without gang allocation each task attempt is a gang of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openpai.lifecycle.model import Job, Task, TaskId, TaskPhase
from openpai.orchestrator.specs import spec_of
from openpai.ports.store import JobRecord
from openpai.protocol.job import JobSpec
from openpai.scheduler.model import Ask, Gang


@dataclass(frozen=True, slots=True)
class Members:
    """A gang's name and the tasks in it, in the order of its asks."""

    gang: str
    tasks: tuple[TaskId, ...]


def gang_of(job: Job, task: Task) -> tuple[str, int]:
    """Return the name of the gang a task belongs to, and its place in it."""
    if not job.plan.is_gang:
        return f"{job.id}/{job.attempt}/{task.id.role}/{task.id.index}/{task.attempt}", 0
    place = 0
    for role in job.plan.roles:
        if role.name == task.id.role:
            return f"{job.id}/{job.attempt}", place + task.id.index
        place += role.instances
    raise KeyError(task.id.role)


def job_of(gang: str) -> str:
    """Return the id of the job a gang belongs to."""
    return gang.partition("/")[0]


def waiting(job: Job) -> Iterator[Members]:
    """Yield every gang of a job that waits for a placement."""
    if job.is_final or job.outcome is not None:
        return
    if job.plan.is_gang:
        if all(task.phase is TaskPhase.WAITING for task in job.tasks.values()):
            yield Members(f"{job.id}/{job.attempt}", tuple(job.tasks))
        return
    for task in job.tasks.values():
        if task.phase is TaskPhase.WAITING:
            yield Members(gang_of(job, task)[0], (task.id,))


def describe(record: JobRecord, members: Members, spec: JobSpec | None = None) -> Gang:
    """Return a gang as the scheduler wants to know it."""
    spec = spec or spec_of(record)
    asks = {
        role.name: Ask(role.resources.cpus, role.resources.memory_mb, role.resources.gpus) for role in spec.task_roles
    }
    return Gang(
        id=members.gang,
        asks=tuple(asks[task.role] for task in members.tasks),
        virtual_cluster=record.virtual_cluster,
        priority=record.priority,
        submitted_at_ms=record.job.submitted_at_ms,
        user=record.user,
        job=record.full_name,
    )
