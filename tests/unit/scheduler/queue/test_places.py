"""The queue of a virtual cluster, and places that are given by hand."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.model import Order
from openpai.scheduler.queue.places import RANK_STEP, RANKS_MAX, ranks_beside
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.unit.scheduler.queue.queues import gang, placed


def names(scheduler: HivedScheduler) -> list[str]:
    return [each.job for each in scheduler.queue("a")]


def move(scheduler: HivedScheduler, job: str, other: str, *, is_before: bool = True) -> int:
    """Put a job beside another one; return how many jobs got a new rank."""
    queue = scheduler.queue("a")
    ranks = ranks_beside(queue, job, other, is_before=is_before)
    for each in queue:
        if each.job in ranks:
            scheduler.change(replace(each.gang, rank=ranks[each.job]))
    return len(ranks)


@pytest.fixture
def full(scheduler: HivedScheduler) -> HivedScheduler:
    """All of virtual cluster a is in use, and five jobs of five users wait."""
    scheduler.add(gang("runs", 4, 4))
    assert placed(scheduler) == ["runs"]
    for age, name in enumerate("vwxyz"):
        scheduler.add(gang(name, 4, 4, submitted_at_ms=age, user=f"user-{name}"))
    assert placed(scheduler, 10) == []
    return scheduler


@pytest.mark.parametrize("order", Order)
def test_a_place_given_by_hand_is_honoured_by_every_order(full: HivedScheduler, order: Order) -> None:
    full.set_orders({"a": order})
    assert names(full) == list("vwxyz")
    assert move(full, "z", "x") == 3
    assert names(full) == list("vwzxy")
    assert move(full, "v", "y", is_before=False) == 1
    move(full, "y", "z")
    before = names(full)
    assert before == list("wyzxv")
    later = resume(json.loads(json.dumps(full.snapshot())))
    assert names(later) == before
    for expected in (*before, None):
        running = next(iter(full.state.running.gangs))
        full.release(running)
        assert placed(full, 1_000) == ([expected] if expected else [])


def test_any_moves_lead_to_the_order_that_they_say(full: HivedScheduler) -> None:
    chance = random.Random(5)
    expected = names(full)
    for _ in range(60):
        job, other = chance.sample(expected, 2)
        is_before = chance.random() < 0.5
        move(full, job, other, is_before=is_before)
        expected.remove(job)
        expected.insert(expected.index(other) + (0 if is_before else 1), job)
        assert names(full) == expected


def test_jobs_that_stay_ahead_keep_their_order_among_themselves(full: HivedScheduler) -> None:
    move(full, "z", "x")
    assert {each.job: each.gang.rank for each in full.queue("a")} == {
        "v": 2 * RANK_STEP, "w": 2 * RANK_STEP, "z": RANK_STEP, "x": 0, "y": 0
    }  # fmt: skip


def test_the_first_say_why_they_wait(full: HivedScheduler) -> None:
    first, second, *_ = full.queue("a", limit=1)
    assert first.wait is not None
    assert "uses 8 of its 8" in first.wait.message
    assert second.wait is None


def test_the_tasks_of_a_job_without_a_gang_are_one_line(full: HivedScheduler) -> None:
    for index in range(3):
        full.add(gang(f"many/{index}", 1, job="ann~many", submitted_at_ms=20))
    (found,) = [each for each in full.queue("a") if each.job == "ann~many"]
    assert (found.gangs, found.gang.id) == (3, "many/0")


@pytest.mark.parametrize(
    ("job", "other", "message"),
    [
        ("v", "urgent", "priorities go before places"),
        ("v", "v", "beside itself"),
        ("v", "runs", "does not wait"),
        ("strange", "v", "no place to change"),
    ],
)
def test_a_place_that_cannot_be_kept_is_refused(full: HivedScheduler, job: str, other: str, message: str) -> None:
    full.add(gang("urgent", 4, 4, priority=10))
    full.add(gang("strange", 4, sku_type="V100", pinned_cell="pin"))
    with pytest.raises(Refused, match=message):
        ranks_beside(full.queue("a"), job, other, is_before=True)


def test_a_place_far_behind_that_would_change_too_many_ranks_is_refused(full: HivedScheduler) -> None:
    for index in range(RANKS_MAX):
        full.add(gang(f"more-{index:03}", 4, 4, submitted_at_ms=100 + index))
    last = names(full)[-1]
    with pytest.raises(Refused, match=f"at most {RANKS_MAX}"):
        ranks_beside(full.queue("a"), "v", last, is_before=True)
    assert ranks_beside(full.queue("a"), "v", last, is_before=False) == {"v": -RANK_STEP}
