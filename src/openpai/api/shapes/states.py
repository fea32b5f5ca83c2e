"""Our phases in OpenPAI's words, as one table.

OpenPAI derived a state from its controller's; here each phase has exactly one state, so that asking the list for a
state and reading the state of an entry can never disagree. What holds devices only because it is being ended is
STOPPING, and what waits for its next try is WAITING.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from openpai.lifecycle.model import JobPhase, TaskPhase, Verdict
from openpai.wire.answers import State as StateName

WAITING: Final = "WAITING"
RUNNING: Final = "RUNNING"
STOPPING: Final = "STOPPING"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
STOPPED: Final = "STOPPED"


class State(NamedTuple):
    """What OpenPAI calls a phase: `state` for people, `sub_state` as its controller named it."""

    state: StateName
    sub_state: str


JOB_STATES: Final[dict[JobPhase, State]] = {
    JobPhase.QUEUED: State(WAITING, "AttemptCreationPending"),
    JobPhase.STARTING: State(WAITING, "AttemptPreparing"),
    JobPhase.RUNNING: State(RUNNING, "AttemptRunning"),
    JobPhase.ENDING: State(STOPPING, "AttemptDeleting"),
    JobPhase.BACKING_OFF: State(WAITING, "AttemptCompleted"),
    JobPhase.SUCCEEDED: State(SUCCEEDED, "Completed"),
    JobPhase.FAILED: State(FAILED, "Completed"),
    JobPhase.STOPPED: State(STOPPED, "Completed"),
}

TASK_STATES: Final[dict[TaskPhase, State]] = {
    TaskPhase.WAITING: State(WAITING, "AttemptCreationPending"),
    TaskPhase.STARTING: State(WAITING, "AttemptPreparing"),
    TaskPhase.RUNNING: State(RUNNING, "AttemptRunning"),
    TaskPhase.BACKING_OFF: State(WAITING, "AttemptCompleted"),
    TaskPhase.SUCCEEDED: State(SUCCEEDED, "Completed"),
    TaskPhase.FAILED: State(FAILED, "Completed"),
    TaskPhase.STOPPED: State(STOPPED, "Completed"),
}

# Preempted work did not do what it was started for; OpenPAI calls every such end FAILED.
VERDICT_STATES: Final[dict[Verdict, StateName]] = {
    Verdict.SUCCEEDED: SUCCEEDED,
    Verdict.FAILED: FAILED,
    Verdict.STOPPED: STOPPED,
    Verdict.PREEMPTED: FAILED,
}


def phases_of(states: Iterable[str]) -> tuple[str, ...]:
    """Return the phases of jobs that are in any of these states; names that are no state have none."""
    wanted = set(states)
    return tuple(phase.value for phase, state in JOB_STATES.items() if state.state in wanted)
