"""One attempt of a job, current or earlier."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.lifecycle.model import JobPhase, Outcome
from openpai.lifecycle.states import JOB_STATES, VERDICT_STATES
from openpai.ports.queries import JobAttemptRow, JobRow
from openpai.wire.states import State


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt of a job, the current one or an earlier one."""

    number: int
    state: State
    created_at_ms: int | None
    started_at_ms: int | None
    ended_at_ms: int | None
    outcome: Outcome | None
    is_latest: bool


def current_attempt(row: JobRow) -> AttemptView:
    """Return the current or last attempt of a job."""
    phase = JobPhase(row.phase)
    is_over = phase is JobPhase.BACKING_OFF and row.outcome is not None
    state = VERDICT_STATES[row.outcome.verdict] if is_over and row.outcome else JOB_STATES[phase].state
    times = (row.attempt_at_ms, row.attempt_started_at_ms, row.attempt_ended_at_ms)
    return AttemptView(row.attempt, state, *times, row.outcome, is_latest=True)


def earlier_attempt(row: JobAttemptRow) -> AttemptView:
    state = VERDICT_STATES[row.outcome.verdict]
    times = (row.created_at_ms, row.started_at_ms, row.ended_at_ms)
    return AttemptView(row.attempt, state, *times, row.outcome, is_latest=False)
