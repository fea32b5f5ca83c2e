"""The tables of moves: complete, and obeyed by everything that can happen."""

from __future__ import annotations

import pytest

from openpai.lifecycle.dependencies import MEETS, Met, met
from openpai.lifecycle.model import JOB_FINAL, TASK_FINAL, JobPhase, TaskPhase
from openpai.lifecycle.table import JOB_MOVES, TASK_MOVES, ImpossibleFact, JobEvent, job_goal
from openpai.protocol.dependencies import Dependency, Until


def test_every_job_phase_can_be_reached_and_left() -> None:
    assert {goal for goals in JOB_MOVES.values() for goal in goals} == set(JobPhase)
    assert {phase for phase, _ in JOB_MOVES} == set(JobPhase)


def test_a_finished_job_only_leaves_by_being_started_again() -> None:
    assert {event for phase, event in JOB_MOVES if phase in JOB_FINAL} == {JobEvent.STARTED_AGAIN}


def test_a_finished_task_never_leaves() -> None:
    assert not {phase for phase, _ in TASK_MOVES} & TASK_FINAL
    assert set(TASK_MOVES.values()) == set(TaskPhase)


def test_a_move_that_no_row_lists_is_refused() -> None:
    with pytest.raises(ImpossibleFact, match="queued cannot become running"):
        job_goal(JobPhase.QUEUED, JobEvent.TASK_RAN, JobPhase.RUNNING)


def test_each_end_that_is_wanted_meets_each_end_there_is() -> None:
    assert set(MEETS) == {(until, phase) for until in Until for phase in JOB_FINAL}
    for until in Until:
        wanted = Dependency("ann", "x", until, "1")
        assert {met(wanted, phase) for phase in JobPhase if phase not in JOB_FINAL} == {Met.NOT_YET}
        assert Met.YES in {met(wanted, phase) for phase in JOB_FINAL}
        assert met(wanted, None) is (Met.YES if until is Until.ENDED else Met.NEVER)
