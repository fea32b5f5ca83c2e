"""Which task attempts to launch or kill so that the world agrees with a job's record. Repeating them is harmless.

Removing what is left of an ended task is the business of the code that records the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openpai.lifecycle.model import AttemptKey, Job, JobPhase, Task, TaskId, TaskPhase


@dataclass(frozen=True, slots=True)
class Wanted:
    """Task attempts to launch, and those to kill."""

    launch: tuple[Task, ...] = ()
    kill: tuple[AttemptKey, ...] = ()


@dataclass(frozen=True, slots=True)
class EndNotice:
    """What a task reads about its end, before it gets SIGTERM."""

    reason: str
    """A word of `EndReason`."""
    message: str


def end_notice(job: Job) -> EndNotice | None:
    """Return why the tasks of a job attempt that still run have to end; None while they may run on."""
    outcome = job.outcome
    return EndNotice(outcome.end_reason.value, outcome.message) if outcome is not None else None


def wanted(job: Job, among: Iterable[TaskId] | None = None) -> Wanted:
    """Return the actions that make the world agree with `job`; only for these tasks if `among` is given."""
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
    """Return whether a task attempt may be alive; anything left of one that is not current can be removed."""
    task = job.tasks.get(key.task)
    return task is not None and task.is_alive and job.key(task) == key
