"""Seeds of trouble, a hundred in a full run, and proof that the checkers would notice if a promise were broken.

For each way of breaking the code some seed has to fail; a checker that never fails proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final
from unittest.mock import ANY

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from openpai.backends.host.grants import NewestGrants
from openpai.backends.simulated.cluster import SimulatedCluster
from openpai.lifecycle import stepping
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import Batch
from openpai.store import cluster_settings as store_settings
from openpai.store import jobs as store_jobs
from openpai.store.jobs import SqlJobStore
from openpai.store.prepared import Prepared
from tests.simulation import world
from tests.simulation.chance import Luck
from tests.simulation.run import attempt, stories

SEEDS = 100
# Which seed notices changes with every change of a history; the search ends at the first.
BROKEN_SEEDS = 200
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=pytest.mark.full if first else pytest.mark.slow) for first in range(0, SEEDS, 20)],
)
def test_twenty_seeds_keep_every_promise(first: int) -> None:
    assert [message for seed in range(first, first + 20) if (message := attempt(seed)[1])] == []


def test_a_seed_is_the_same_story_in_every_process() -> None:
    assert len(stories("live_through(7)")) == 1


def draw_often(monkeypatch: pytest.MonkeyPatch, weights: Mapping[str, float], **fields: Any) -> None:
    """Give every seed two servers and time enough, and some kinds of trouble the weights that bring them together.

    `fields` replaces more of the luck, also the number of servers.
    """
    draw = Luck.draw

    def drawn(chance: Random) -> Luck:
        luck = draw(chance)
        usual: dict[str, Any] = {"servers": 2, "steps": max(luck.steps, 300), "weights": {**luck.weights, **weights}}
        return replace(luck, **{**usual, **fields})

    monkeypatch.setattr(Luck, "draw", drawn)


CALM: Final = {"kill a server": 0.0, "freeze a server": 0.0, "no answer": 0.0}
# Servers hang for longer than their leases, so that old leaders are common, while many jobs are stopped.
FREEZES: Final = {"weights": {**CALM, "freeze a server": 8.0, "stop": 10.0}, "jobs": 40}
# One server, which ends jobs also while they start.
STOPS: Final = {"weights": {**CALM, "stop": 20.0}, "jobs": 20, "servers": 1}
# Old leaders while some jobs are submitted, which old and new leaders place.
PLACEMENTS: Final = {"weights": {**CALM, "freeze a server": 5.0}, "jobs": 20}
# The same while many jobs are submitted.
SUBMISSIONS: Final = {"weights": {**CALM, "freeze a server": 5.0, "stop": 0.0, "start": 0.0}, "jobs": 60}
# People change their minds about a few jobs, on whichever server answers.
CHANGES: Final = {"weights": {**CALM, "stop": 40.0, "start": 40.0}, "jobs": 3}
# One server, as each change of leaders would put right what a lost answer left wrong. With more lost answers than this,
# it would hardly begin to lead.
SILENCE: Final = {"weights": {**CALM, "no answer": 3.0}, "jobs": 30, "servers": 1, "steps": 600}


def caught(broken: Break, about: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail unless a seed notices the broken code, says what it is about, and holds without it."""
    noticed: list[str] = []
    for seed in range(BROKEN_SEEDS):
        with monkeypatch.context() as context:
            broken(context)
            _, message = attempt(seed)
        if message:
            noticed.append(message.splitlines()[0])
            # A seed whose jobs only retry for longer than the calm lasts proves nothing about the broken code.
            if about in noticed[-1] and attempt(seed)[1] == "":
                return
    pytest.fail(f"none of {BROKEN_SEEDS} seeds noticed {about!r}; they noticed {noticed}")


def _a_late_launch_starts_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    was = SimulatedCluster._launch

    def launch(self: SimulatedCluster, order: Any) -> None:
        self._grants = NewestGrants()
        self._forgotten.clear()
        was(self, order)

    monkeypatch.setattr(SimulatedCluster, "_launch", launch)


def _an_old_leader_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_jobs, "check_lease", lambda connection, epoch: None)
    monkeypatch.setattr(store_settings, "check_lease", lambda connection, epoch: None)


def _the_store_accepts_a_granted_device(monkeypatch: pytest.MonkeyPatch) -> None:
    replacing = sqlite.insert(store_jobs.grants).prefix_with("OR REPLACE")
    monkeypatch.setattr(store_jobs, "_ADD_GRANT", Prepared(replacing))
    _an_old_leader_may_write(monkeypatch)


def _a_stop_speaks_of_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    was = stepping._Draft._stop

    def stop(self: Any) -> None:
        was(self)
        self.job = replace(self.job, is_stop_requested=False)

    monkeypatch.setattr(stepping._Draft, "_stop", stop)


def _a_submission_is_answered_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(self: SqlJobStore, new: Any, epoch: int | None) -> None:
        return None

    monkeypatch.setattr(SqlJobStore, "add_jobs", forget)


def _devices_are_never_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    none = store_jobs._RELEASE.statement.where(sa.text("device < 0"))
    monkeypatch.setattr(store_jobs, "_RELEASE", Prepared(none))


def _an_old_leader_keeps_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every lease is taken for the newest.
    monkeypatch.setattr(store_jobs, "newest_epoch", lambda connection: ANY)


def _an_old_leader_ends_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(self: SqlJobStore, epoch: int) -> None:
        return None

    monkeypatch.setattr(SqlJobStore, "check_lease", check)


def _stale_records_answer_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: Batch, known: Any) -> bool:
        return False

    monkeypatch.setattr(Batch, "_is_outdated", never)


def _lost_answers_are_taken_for_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "must_resync", property(lambda self: False, lambda self, value: None))


@pytest.mark.parametrize(
    ("broken", "about", "luck"),
    [
        (_an_old_leader_may_write, "is killed", FREEZES),
        (_the_store_accepts_a_granted_device, "are not what live tasks hold", PLACEMENTS),
        (_a_stop_speaks_of_one_attempt, "stop", None),
        (_a_submission_is_answered_before_it_is_written, "no such job", None),
        (_devices_are_never_given_back, "grants", None),
        # These are found by a later seed only.
        pytest.param(_a_late_launch_starts_what_is_over, "the store says None", STOPS, marks=pytest.mark.full),
        pytest.param(_an_old_leader_keeps_submissions, "never end", SUBMISSIONS, marks=pytest.mark.full),
        pytest.param(_an_old_leader_ends_what_it_does_not_know, "is killed", FREEZES, marks=pytest.mark.full),
        pytest.param(_stale_records_answer_requests, "acknowledged", CHANGES, marks=pytest.mark.full),
        pytest.param(_lost_answers_are_taken_for_no, "never end", SILENCE, marks=pytest.mark.full),
    ],
)
def test_broken_code_is_caught(
    broken: Break, about: str, luck: Mapping[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "CALM_MAX_S", 3600)
    if luck is not None:
        draw_often(monkeypatch, **luck)
    caught(broken, about, monkeypatch)
