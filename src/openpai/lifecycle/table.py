"""What may happen to a job and to a task, as two tables. Nothing else in the platform assigns a phase.

Each row names a phase, an event and the next phase. Where the next phase depends on the verdict, the row
lists every phase it may lead to, and `lifecycle.stepping` chooses among them; a move that no row lists is a bug
and raises. The page docs/job-states.md, the database's check constraints and the portal's types come from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from openpai.lifecycle.model import JobPhase, TaskPhase
from openpai.protocol.errors import Broken


class JobEvent(StrEnum):
    """What can happen to a job as a whole."""

    RELEASED = "everything it waits for has happened"
    TAKEN_BACK = "the queue that admitted it took that back"
    GRANTED = "tasks were granted their resources"
    TASK_RAN = "the first task runs"
    VERDICT = "the attempt has its verdict while tasks are alive"
    OVER = "the attempt has its verdict and no task is alive"
    RETRY_DUE = "the time to try again has come"
    STARTED_AGAIN = "the finished job was started again"


class TaskEvent(StrEnum):
    """What can happen to a task."""

    GRANTED = "it was granted its resources"
    RAN = "it was seen running"
    SUCCEEDED = "it exited with code 0"
    FAILED = "it failed and is not tried again in this job attempt"
    RETRIED_IN_PLACE = "it failed and is tried again with the same resources"
    RETRIED_ELSEWHERE = "it failed, returned its resources and queues again"
    RETRIED_LATER = "it failed through no fault of its own and waits before it queues again"
    RETRY_DUE = "the time to try again has come"
    STOPPED = "its job attempt ended, or its task role became smaller"


_J = JobPhase
_AFTER_AN_ATTEMPT: Final = frozenset({_J.SUCCEEDED, _J.FAILED, _J.STOPPED, _J.BACKING_OFF, _J.QUEUED, _J.HELD})
_A_START: Final = frozenset({_J.QUEUED, _J.HELD})

JOB_MOVES: Final[Mapping[tuple[JobPhase, JobEvent], frozenset[JobPhase]]] = {
    (_J.HELD, JobEvent.RELEASED): frozenset({_J.QUEUED}),
    (_J.HELD, JobEvent.OVER): frozenset({_J.STOPPED}),
    (_J.QUEUED, JobEvent.GRANTED): frozenset({_J.STARTING}),
    (_J.QUEUED, JobEvent.TAKEN_BACK): frozenset({_J.HELD}),
    (_J.QUEUED, JobEvent.OVER): frozenset({_J.STOPPED}),
    (_J.STARTING, JobEvent.GRANTED): frozenset({_J.STARTING}),
    (_J.STARTING, JobEvent.TASK_RAN): frozenset({_J.RUNNING}),
    (_J.STARTING, JobEvent.VERDICT): frozenset({_J.ENDING}),
    (_J.STARTING, JobEvent.OVER): _AFTER_AN_ATTEMPT,
    (_J.RUNNING, JobEvent.GRANTED): frozenset({_J.RUNNING}),
    (_J.RUNNING, JobEvent.VERDICT): frozenset({_J.ENDING}),
    (_J.RUNNING, JobEvent.OVER): _AFTER_AN_ATTEMPT,
    (_J.ENDING, JobEvent.OVER): _AFTER_AN_ATTEMPT,
    (_J.BACKING_OFF, JobEvent.RETRY_DUE): _A_START,
    (_J.BACKING_OFF, JobEvent.OVER): frozenset({_J.STOPPED}),
    (_J.SUCCEEDED, JobEvent.STARTED_AGAIN): _A_START,
    (_J.FAILED, JobEvent.STARTED_AGAIN): _A_START,
    (_J.STOPPED, JobEvent.STARTED_AGAIN): _A_START,
}

_T = TaskPhase
TASK_MOVES: Final[Mapping[tuple[TaskPhase, TaskEvent], TaskPhase]] = {
    (_T.WAITING, TaskEvent.GRANTED): _T.STARTING,
    (_T.WAITING, TaskEvent.STOPPED): _T.STOPPED,
    (_T.STARTING, TaskEvent.RAN): _T.RUNNING,
    **{
        (alive, event): goal
        for alive in (_T.STARTING, _T.RUNNING)
        for event, goal in {
            TaskEvent.SUCCEEDED: _T.SUCCEEDED,
            TaskEvent.FAILED: _T.FAILED,
            TaskEvent.RETRIED_IN_PLACE: _T.STARTING,
            TaskEvent.RETRIED_ELSEWHERE: _T.WAITING,
            TaskEvent.RETRIED_LATER: _T.BACKING_OFF,
            TaskEvent.STOPPED: _T.STOPPED,
        }.items()
    },
    (_T.BACKING_OFF, TaskEvent.RETRY_DUE): _T.WAITING,
    (_T.BACKING_OFF, TaskEvent.STOPPED): _T.STOPPED,
}


class ImpossibleFact(Broken):
    """A fact that cannot have happened was reported."""


def job_goal(phase: JobPhase, event: JobEvent, goal: JobPhase) -> JobPhase:
    """Return `goal` if the table allows it; raise ImpossibleFact otherwise."""
    if goal not in JOB_MOVES.get((phase, event), frozenset()):
        raise ImpossibleFact(f"a job that is {phase} cannot become {goal} because {event}")
    return goal


def task_goal(phase: TaskPhase, event: TaskEvent) -> TaskPhase:
    """Return the next phase of a task; raise ImpossibleFact when the table has no such row."""
    goal = TASK_MOVES.get((phase, event))
    if goal is None:
        raise ImpossibleFact(f"a task that is {phase} cannot have the event: {event}")
    return goal
