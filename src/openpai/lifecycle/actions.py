"""What ought to exist in the world for a job to be as its record says. Asking twice is harmless.

Launches, endings and nothing else: what is left of a task after its end is forgotten by the code that recorded the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openpai.lifecycle.model import AttemptKey, Job, JobPhase, Task, TaskId, TaskPhase


@dataclass(frozen=True, slots=True)
class Wanted:
    """Task attempts that should be made to run, and those that should be made to end."""

    launch: tuple[Task, ...] = ()
    kill: tuple[AttemptKey, ...] = ()


def wanted(job: Job, among: Iterable[TaskId] | None = None) -> Wanted:
    """Return the actions that make the world agree with `job`; only for these tasks if some are named."""
    if job.phase not in (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.ENDING):
        return Wanted()
    if among is None:
        tasks = list(job.tasks.values())
    else:
        tasks = [task for id_ in among if (task := job.tasks.get(id_)) is not None]
    if job.phase is JobPhase.ENDING:
        return Wanted(kill=tuple([job.key(task) for task in tasks if task.is_alive]))
    return Wanted(launch=tuple([task for task in tasks if task.phase is TaskPhase.STARTING]))


def is_current(job: Job, key: AttemptKey) -> bool:
    """Return whether a task attempt may be alive: if so its end is awaited, if not nothing of it should be there."""
    task = job.tasks.get(key.task)
    return task is not None and task.is_alive and job.key(task) == key
