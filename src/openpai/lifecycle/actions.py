"""What ought to exist in the world for a job to be as its record says. Asking twice is harmless.

Launches, endings and nothing else: what is left of a task after its end is forgotten by whoever recorded the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from openpai.lifecycle.model import AttemptKey, Job, JobPhase, Task, TaskPhase


@dataclass(frozen=True, slots=True)
class Wanted:
    """Task attempts that should be made to run, and those that should be made to end."""

    launch: tuple[Task, ...] = ()
    kill: tuple[AttemptKey, ...] = ()


def wanted(job: Job) -> Wanted:
    """Return what the world must be told so that it agrees with `job`."""
    if job.phase is JobPhase.ENDING:
        return Wanted(kill=tuple(job.key(task) for task in job.tasks.values() if task.is_alive))
    if job.phase in (JobPhase.STARTING, JobPhase.RUNNING):
        return Wanted(launch=tuple(task for task in job.tasks.values() if task.phase is TaskPhase.STARTING))
    return Wanted()


def is_current(job: Job, key: AttemptKey) -> bool:
    """Return whether a task attempt may be alive: if so its end is awaited, if not nothing of it should be there."""
    task = job.tasks.get(key.task)
    return task is not None and task.is_alive and job.key(task) == key
