"""The state in which people see each phase of a job or task, as tables.

Each phase has exactly one state, so that a list of jobs in a state and the state of a job in the list always agree.
A job or task that is being ended and still holds devices is STOPPING; one that waits for its next attempt is WAITING.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from openpai.lifecycle.model import JobPhase, TaskPhase, Verdict
from openpai.wire.states import State as StateName


class State(NamedTuple):
    """The state of a phase, and `sub_state`, the name of the phase in OpenPAI's controller."""

    state: StateName
    sub_state: str


JOB_STATES: Final[dict[JobPhase, State]] = {
    JobPhase.HELD: State("WAITING", "AttemptCreationPending"),
    JobPhase.QUEUED: State("WAITING", "AttemptCreationPending"),
    JobPhase.STARTING: State("WAITING", "AttemptPreparing"),
    JobPhase.RUNNING: State("RUNNING", "AttemptRunning"),
    JobPhase.ENDING: State("STOPPING", "AttemptDeleting"),
    JobPhase.BACKING_OFF: State("WAITING", "AttemptCompleted"),
    JobPhase.SUCCEEDED: State("SUCCEEDED", "Completed"),
    JobPhase.FAILED: State("FAILED", "Completed"),
    JobPhase.STOPPED: State("STOPPED", "Completed"),
}

TASK_STATES: Final[dict[TaskPhase, State]] = {
    TaskPhase.WAITING: State("WAITING", "AttemptCreationPending"),
    TaskPhase.STARTING: State("WAITING", "AttemptPreparing"),
    TaskPhase.RUNNING: State("RUNNING", "AttemptRunning"),
    TaskPhase.BACKING_OFF: State("WAITING", "AttemptCompleted"),
    TaskPhase.SUCCEEDED: State("SUCCEEDED", "Completed"),
    TaskPhase.FAILED: State("FAILED", "Completed"),
    TaskPhase.STOPPED: State("STOPPED", "Completed"),
}

# OpenPAI shows preempted work as FAILED.
VERDICT_STATES: Final[dict[Verdict, StateName]] = {
    Verdict.SUCCEEDED: "SUCCEEDED",
    Verdict.FAILED: "FAILED",
    Verdict.STOPPED: "STOPPED",
    Verdict.PREEMPTED: "FAILED",
}


def phases_of(states: Iterable[str]) -> tuple[str, ...]:
    """Return the phases of jobs that are in any of these states; unknown names have no phases."""
    wanted = set(states)
    return tuple(phase.value for phase, state in JOB_STATES.items() if state.state in wanted)
