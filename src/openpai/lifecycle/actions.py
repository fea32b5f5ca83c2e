"""Which task attempts to launch or kill so that the world agrees with a job's record. Repeating them is harmless.

Removing what is left of an ended task is the business of the code that records the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from openpai.lifecycle.model import AttemptKey, EndReason, Job, JobPhase, Task, TaskId, TaskPhase
from openpai.lifecycle.rescaling import removed


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


RESCALED: Final = EndNotice(EndReason.RESCALED.value, "its task role became smaller")


def end_notice(job: Job) -> EndNotice | None:
    """Return why the tasks of a job attempt that have to end must do so; None while all may run on."""
    outcome = job.outcome
    if outcome is not None:
        return EndNotice(outcome.end_reason.value, outcome.message)
    return RESCALED if removed(job) else None


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
    launch = tuple([task for task in tasks if task.phase is TaskPhase.STARTING])
    if len(job.tasks) == job.plan.tasks_total:
        return Wanted(launch)
    lost = {task.id for task in removed(job)}
    return Wanted(
        launch=tuple([task for task in launch if task.id not in lost]),
        kill=tuple([job.key(task) for task in tasks if task.is_alive and task.id in lost]),
    )


def is_current(job: Job, key: AttemptKey) -> bool:
    """Return whether a task attempt may be alive; anything left of one that is not current can be removed."""
    task = job.tasks.get(key.task)
    return task is not None and task.is_alive and job.key(task) == key
