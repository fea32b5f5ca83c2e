"""What is kept for gangs that waited long, and how long the shortest may pass others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node, Order, Place, Spot, Why
from openpai.scheduler.queue.backfill import Kept, choose, kept_in
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.unit.scheduler.queue.queues import HOUR_MS, LONG_MS, gang, placed

Text = Callable[..., str]


MINUTE_MS = 60_000

LONGEST_H = 10


def test_only_what_is_gone_in_time_starts_on_cells_kept_for_a_gang_that_waited_long(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 2, time_limit_ms=HOUR_MS + MINUTE_MS))
    assert placed(scheduler, HOUR_MS) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS // 2))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("too-long", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS + 1))
    scheduler.add(gang("unlimited", 1, submitted_at_ms=LONG_MS))
    scheduler.add(gang("short", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS))
    assert placed(scheduler, LONG_MS) == ["short"]
    why = scheduler.why("too-long")
    assert why is not None
    assert (why.code, "kept for whole" in why.message) == (Why.BEHIND_OLDER_JOB, True)
    scheduler.release("short")
    scheduler.release("runs")
    assert placed(scheduler, 3 * HOUR_MS) == ["whole"]


def test_cells_that_would_stand_idle_for_long_are_not_kept_yet(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 2, time_limit_ms=3 * HOUR_MS))
    assert placed(scheduler) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS + 1))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("unlimited", 1, submitted_at_ms=LONG_MS))
    assert placed(scheduler, LONG_MS) == ["unlimited"]


def test_idle_time_of_kept_cells_counts_from_when_they_were_first_kept() -> None:
    kept = Kept("whole", "a", 0, (), chosen_ms=0, free_ms=HOUR_MS, idle_devices=3)
    kept.count_idle(HOUR_MS)
    kept = kept_in(json.loads(json.dumps(kept.dump())))
    kept.count_idle(2 * HOUR_MS)  # nothing was withheld since
    assert (kept.idle_ms, kept.idle_devices, kept.counted_ms) == (3 * HOUR_MS, 0, 2 * HOUR_MS)


def test_everything_but_the_kept_cells_stays_open_to_all(scheduler: HivedScheduler) -> None:
    for name, gpus in (("short", 3), ("long", 3)):
        scheduler.add(gang(name, gpus, time_limit_ms=(40 if name == "short" else 50) * MINUTE_MS))
        assert placed(scheduler, 90 * MINUTE_MS) == [name]
    scheduler.add(gang("whole", 4))
    assert placed(scheduler, LONG_MS) == []
    kept = scheduler.state.kept["a"]
    part = scheduler.core.cluster.gangs["short"].parts[0]
    assert part is not None
    assert (kept.gang, kept.closed_ms, kept.free_ms) == ("whole", LONG_MS, LONG_MS + 10 * MINUTE_MS)
    assert part.guarantee is not None
    assert [piece.number for piece in kept.pieces] == [part.guarantee.number]
    for name in ("one", "two"):
        scheduler.add(gang(name, 1, submitted_at_ms=LONG_MS))
    assert placed(scheduler, LONG_MS + 1) == ["one"]
    one = scheduler.core.cluster.gangs["one"].parts[0]
    assert one is not None
    assert one.node_cell is not part.node_cell


def test_a_time_limit_counts_from_the_true_start_after_a_restart(scheduler: HivedScheduler) -> None:
    runs = gang("runs", 2, time_limit_ms=HOUR_MS // 2)
    scheduler.restore(runs, [Spot("r0n0", (0, 1))], LONG_MS - HOUR_MS // 2 + MINUTE_MS)
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=LONG_MS - HOUR_MS * 3 // 4))
    assert placed(scheduler, LONG_MS) == []
    assert scheduler.state.kept["a"].free_ms == LONG_MS + MINUTE_MS
    scheduler.add(gang("short", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS))
    scheduler.add(gang("longer", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS + 1))
    assert placed(scheduler, LONG_MS) == ["short"]


def test_no_gang_starts_on_cells_closed_for_one_member_however_short(scheduler: HivedScheduler) -> None:
    for name in ("runs", "other"):
        scheduler.add(gang(name, 3, time_limit_ms=HOUR_MS))
        assert placed(scheduler, 90 * MINUTE_MS) == [name]
    scheduler.add(gang("whole", 4))
    assert placed(scheduler, LONG_MS) == []
    assert scheduler.state.kept["a"].closed_ms == LONG_MS
    for name in ("short", "shorter"):
        scheduler.add(gang(name, 1, submitted_at_ms=3, time_limit_ms=1))
    assert len(placed(scheduler, LONG_MS + 1)) == 1


def test_guests_start_on_closed_cells_for_as_long_as_the_longest_gang_ran(scheduler: HivedScheduler) -> None:
    for at in range(200):
        hours = 0.5 if at % 50 else LONGEST_H
        scheduler.learn_run_time(gang("", 2, submitted_at_ms=at, user="ann"), int(hours * HOUR_MS))
    ran(scheduler, 300, user="bob")
    scheduler.add(gang("runs", 2, user="bob"))
    closed_ms = 2 * LONGEST_H * HOUR_MS
    assert placed(scheduler, closed_ms) == ["runs"]
    scheduler.add(gang("whole", 4, 4, user="eve"))
    assert placed(scheduler, closed_ms) == []
    kept = scheduler.state.kept["a"]
    assert (kept.closed_ms, kept.free_ms) == (closed_ms, closed_ms + 5 * HOUR_MS)
    now_ms = closed_ms + HOUR_MS
    scheduler.add(gang("guest", 2, submitted_at_ms=now_ms, user="ann"))
    assert placed(scheduler, now_ms) == ["guest"]
    assert scheduler.state.kept["a"].guests == ("guest",)
    scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    scheduler.release("runs")
    # Only the guest runs there now, and longer than nearly all like it: another hour, as the longest of them did.
    until_ms = closed_ms + LONGEST_H * HOUR_MS
    scheduler.add(gang("in-time", 1, submitted_at_ms=until_ms - 1, time_limit_ms=MINUTE_MS))
    assert placed(scheduler, until_ms - 1) == ["in-time"]
    scheduler.release("in-time")
    scheduler.add(gang("late", 1, submitted_at_ms=until_ms, time_limit_ms=MINUTE_MS))
    assert placed(scheduler, until_ms) == []
    assert scheduler.state.kept["a"].free_ms == now_ms + LONGEST_H * HOUR_MS
    scheduler.release("guest")
    assert placed(scheduler, until_ms)[:1] == ["whole"]


@pytest.mark.parametrize(("rare", "is_worth"), [(40, True), (4, False)])
def test_a_guest_must_use_more_than_it_costs_on_average(scheduler: HivedScheduler, rare: int, is_worth: bool) -> None:
    """One in `rare` gangs like the guest runs for ten hours, the others for half an hour."""
    for at in range(40):
        hours = 10 if at % rare == 0 else 0.5
        scheduler.learn_run_time(gang("", 2, submitted_at_ms=at, user="ann"), int(hours * HOUR_MS))
    ran(scheduler, 300, user="bob")
    scheduler.add(gang("runs", 2, user="bob"))
    now_ms = 20 * HOUR_MS
    assert placed(scheduler, now_ms) == ["runs"]
    scheduler.add(gang("whole", 4, 4, user="eve"))
    assert placed(scheduler, now_ms) == []
    kept = scheduler.state.kept["a"]
    assert (kept.closed_ms, kept.free_ms) == (now_ms, now_ms + 5 * HOUR_MS)
    scheduler.add(gang("guest", 2, submitted_at_ms=now_ms, user="ann"))
    assert placed(scheduler, now_ms + 1) == (["guest"] if is_worth else [])


@pytest.mark.parametrize(("each", "hours"), [(4, 7), (1, 9)])
def test_cells_with_many_gangs_are_expected_to_be_free_later(scheduler: HivedScheduler, each: int, hours: int) -> None:
    for at in range(9):
        scheduler.learn_run_time(gang("", each, submitted_at_ms=at), (at + 1) * HOUR_MS)
    for at in range(8 // each):
        scheduler.add(gang(f"runs{at}", each))
        assert placed(scheduler) == [f"runs{at}"]
    scheduler.add(gang("whole", 4, 4))
    assert placed(scheduler, 0) == []
    waiting = scheduler.state.queue.get("whole")
    assert waiting is not None
    leaving = [scheduler.state.leaving(held) for held in scheduler.state.running.gangs.values()]
    kept = choose(scheduler.core.cluster, waiting, leaving, 0)
    assert kept is not None
    # Half of those that ran as long as these took 5 hours or more; that all of them are gone by then is less likely.
    assert kept.free_ms == hours * HOUR_MS


def test_a_gang_that_runs_longer_than_any_before_delays_when_cells_are_closed(scheduler: HivedScheduler) -> None:
    ran(scheduler, 60)
    full(scheduler, 100)
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS))
    assert placed(scheduler, 3 * HOUR_MS) == []
    assert scheduler.state.kept["a"].closed_ms is None
    scheduler.release("runs0")
    scheduler.add(gang("again", 4))
    assert scheduler.state.closed_after_ms(scheduler.state.queue.all()[0]) == 4 * HOUR_MS


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))])
@pytest.mark.slow
def test_no_gang_is_passed_for_ever(seed: int, text_of_racks: Text) -> None:
    """A gang that many smaller ones could pass for ever waits no longer than what is promised in the docs."""
    dice = random.Random(seed)
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK": 2}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    scheduler.set_fairness(dice.choice([None, 24 * HOUR_MS]))
    ends: dict[str, int] = {}
    ahead: dict[str, int] = {}
    waits: dict[str, int] = {}
    for hour in range(400):
        now_ms = hour * HOUR_MS
        for name in [name for name, end_ms in ends.items() if end_ms <= now_ms]:
            scheduler.release(name)
            del ends[name]
        # So many small gangs that two whole nodes are rarely free by chance.
        for number in range(dice.choice([1, 2, 3])):
            name = f"small{hour}-{number}"
            scheduler.add(gang(name, dice.choice([1, 1, 2]), submitted_at_ms=now_ms, user=dice.choice(["ann", "bob"])))
        if hour % 60 == 20:
            asks = dice.choice([(4, 4), (4, 4, 4), (4,), (4, 2, 2)])
            ahead[f"big{hour}"] = sum(each.gang.id.startswith("big") for each in scheduler.state.queue.all())
            scheduler.add(gang(f"big{hour}", *asks, submitted_at_ms=now_ms, user="eve"))
        for decision in scheduler.decide(now_ms, 100):
            assert isinstance(decision, Place)
            scheduler.commit(decision.gang)
            ends[decision.gang] = now_ms + dice.randint(1, LONGEST_H) * HOUR_MS
            if decision.gang.startswith("big"):
                waits[decision.gang] = hour - int(decision.gang[3:])
        if hour % 40 == 0:
            scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    assert len(waits) >= 4
    for name, hours in waits.items():
        # Four times the longest run time for one that needs no two nodes at once, two times for others.
        assert hours <= (4 + 1 + ahead[name] * 2) * LONGEST_H + 2, name


def ran(scheduler: HivedScheduler, minutes: int, number: int = 4, **more: Any) -> None:
    """Let gangs of a kind have run that long."""
    for at in range(number):
        scheduler.learn_run_time(gang(f"past{at}", 4, 4, submitted_at_ms=at, **more), minutes * MINUTE_MS)


def test_the_shortest_go_first_where_that_is_set_and_the_oldest_where_that_is(scheduler: HivedScheduler) -> None:
    ran(scheduler, 60, user="ann")
    ran(scheduler, 5, user="bob", job="bob~quick-7")
    ran(scheduler, 90, user="bob", job="bob~slow-7")
    waits = [
        gang("ann", 4, 4, user="ann", submitted_at_ms=1),
        gang("slow", 4, 4, user="bob", job="bob~slow-8", submitted_at_ms=2),
        gang("quick", 4, 4, user="bob", job="bob~quick-12", submitted_at_ms=3),
        gang("limited", 4, 4, user="bob", job="bob~slow-9", submitted_at_ms=4, time_limit_ms=2 * MINUTE_MS),
    ]
    for order, names in ((Order.SHORTEST, "limited quick ann slow"), (Order.FIFO, "ann slow quick limited")):
        for each in waits:
            scheduler.add(each)
        scheduler.set_orders({"a": order})
        found = []
        while names_now := placed(scheduler, 5):
            found += names_now
            scheduler.cancel(names_now[0])
            scheduler.release(names_now[0])
            scheduler.state.running.run_times = type(scheduler.state.running.run_times)()
            ran(scheduler, 60, user="ann")
            ran(scheduler, 5, user="bob", job="bob~quick-7")
            ran(scheduler, 90, user="bob", job="bob~slow-7")
        assert " ".join(found) == names


def test_one_that_waited_long_goes_before_the_shortest(scheduler: HivedScheduler) -> None:
    ran(scheduler, 60, user="ann")
    ran(scheduler, 5, user="bob")
    scheduler.set_orders({"a": Order.SHORTEST})
    scheduler.add(gang("long", 4, 4, user="ann", submitted_at_ms=0))
    for at_ms in (4 * HOUR_MS - 1, 11 * HOUR_MS):
        scheduler.add(gang("short", 4, 4, user="bob", submitted_at_ms=at_ms))
        first = [decision.gang for decision in scheduler.decide(at_ms, 100)]
        # An hour is as long as any gang ran; whose turn it is is looked at every six hours if nothing finishes.
        assert first == (["short"] if at_ms < 4 * HOUR_MS else ["long"])
        scheduler.reject(first[0])
        scheduler.cancel("short")


def fits_like(scheduler: HivedScheduler, other: str, started: str) -> bool:
    """Return whether a gang asks for the same as one that started, so that it could have had its place."""
    waiting, held = scheduler.state.queue.get(other), scheduler.state.running.gangs[started]
    return waiting is not None and len(waiting.gang.asks) == len(held.gang.asks)


@pytest.mark.parametrize("seed", range(8))
def test_no_gang_is_passed_by_shorter_ones_for_longer_than_documented(seed: int, text_of_racks: Text) -> None:
    dice = random.Random(seed)
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK": 2}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    scheduler.set_orders({"a": Order.SHORTEST})
    ends: dict[str, int] = {}
    waiting: dict[str, int] = {}
    passed_h = 0
    for hour in range(400):
        now_ms = hour * HOUR_MS
        for name in [name for name, end_ms in ends.items() if end_ms <= now_ms]:
            scheduler.release(name)
            del ends[name]
        for number in range(dice.choice([0, 1, 1])):
            kind = dice.choice(["quick", "slow"])
            waiting[f"{kind}{hour}-{number}"] = hour
            asks = (4,) * dice.choice([1, 2])
            scheduler.add(gang(f"{kind}{hour}-{number}", *asks, submitted_at_ms=now_ms, user=kind))
        for decision in scheduler.decide(now_ms, 100):
            assert isinstance(decision, Place)
            scheduler.commit(decision.gang)
            hours = 1 if decision.gang.startswith("quick") else dice.randint(6, LONGEST_H)
            ends[decision.gang] = now_ms + hours * HOUR_MS
            since = waiting.pop(decision.gang)
            older = [other for other, other_since in waiting.items() if other_since < since]
            passed_h = max(
                [passed_h, *(hour - waiting[other] for other in older if fits_like(scheduler, other, decision.gang))]
            )
    # Four times as long as the longest ran, and six hours until that is looked at.
    assert 0 < passed_h <= 4 * LONGEST_H + 6


@pytest.fixture
def four_nodes(text_of_racks: Text) -> HivedScheduler:
    """Return a scheduler whose virtual cluster has four nodes of four devices."""
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK.NODE": 4}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    return scheduler


def full(scheduler: HivedScheduler, hours: int, now_ms: int = 0) -> None:
    """Fill all promised cells for so long."""
    for at in range(sum(share.size for share in scheduler.core.cluster.shares_of("a")) // 4):
        scheduler.add(gang(f"runs{at}", 4, time_limit_ms=hours * HOUR_MS))
        assert placed(scheduler, now_ms) == [f"runs{at}"]


@pytest.mark.parametrize("others", [0, 40])
def test_cells_are_kept_for_several_members_once_they_waited_as_long_as_gangs_like_it_run(
    scheduler: HivedScheduler, others: int
) -> None:
    ran(scheduler, 60)
    for at in range(4):
        scheduler.learn_run_time(gang(f"long{at}", 1, submitted_at_ms=at), 20 * HOUR_MS)
    full(scheduler, 100)
    scheduler.add(gang("whole", 4, 4))
    for at in range(others):
        scheduler.add(gang(f"other{at}", 2, submitted_at_ms=1))
    assert placed(scheduler, HOUR_MS - 1) == []
    assert not scheduler.state.kept
    assert scheduler.look_again_ms() == HOUR_MS
    assert placed(scheduler, HOUR_MS) == []
    assert scheduler.state.kept["a"].gang == "whole"
    assert scheduler.state.kept["a"].closed_ms is None


def test_cells_are_kept_for_one_member_only_when_they_are_closed(scheduler: HivedScheduler) -> None:
    ran(scheduler, 60)
    full(scheduler, 100, 3 * HOUR_MS)
    scheduler.add(gang("alone", 4))
    assert placed(scheduler, 4 * HOUR_MS - 1) == []
    assert not scheduler.state.kept
    assert placed(scheduler, 4 * HOUR_MS) == []
    assert scheduler.state.kept["a"].closed_ms == 4 * HOUR_MS


def test_several_cells_that_are_free_at_once_serve_the_largest_gang_that_waited_long(
    four_nodes: HivedScheduler,
) -> None:
    scheduler = four_nodes
    ran(scheduler, 60)
    full(scheduler, 100)
    scheduler.add(gang("alone", 4))
    scheduler.add(gang("three", 4, 4, 4, submitted_at_ms=1))
    scheduler.add(gang("two", 4, 4, submitted_at_ms=2))
    assert placed(scheduler, HOUR_MS // 4) == []
    for at in range(3):
        scheduler.release(f"runs{at}")
    assert placed(scheduler, 2 * HOUR_MS) == ["three"]
    scheduler.release("three")
    assert placed(scheduler, 2 * HOUR_MS + 1) == ["two", "alone"]


def test_no_gang_that_waited_little_goes_before_an_older_smaller_one(four_nodes: HivedScheduler) -> None:
    scheduler = four_nodes
    ran(scheduler, 60)
    full(scheduler, 100)
    scheduler.add(gang("alone", 4))
    scheduler.add(gang("two", 4, 4, submitted_at_ms=1))
    assert placed(scheduler, HOUR_MS // 4) == []
    for at in range(2):
        scheduler.release(f"runs{at}")
    assert placed(scheduler, HOUR_MS // 2) == ["alone"]


def test_cells_are_kept_where_they_are_idle_for_the_least_time(four_nodes: HivedScheduler) -> None:
    scheduler = four_nodes
    for user, hours in (("quick", 1), ("ann", 20), ("bob", 40), ("eve", 50)):
        ran(scheduler, 60 * hours, user=user)
    # On each of the first two nodes bob needs one device for longer than ann needs the others.
    for at, held in enumerate([{"ann": 3, "bob": 1}, {"ann": 3, "bob": 1}, {"eve": 4}, {"eve": 4}]):
        for user, number in held.items():
            scheduler.add(gang(f"{user}{at}", number, user=user))
            assert placed(scheduler) == [f"{user}{at}"]
    scheduler.add(gang("two", 4, 4, user="quick"))
    assert placed(scheduler, HOUR_MS) == []
    kept = scheduler.state.kept["a"]
    assert (kept.closed_ms, kept.free_ms) == (None, 50 * HOUR_MS)
    parts = [scheduler.core.cluster.gangs[f"eve{at}"].parts[0] for at in (2, 3)]
    numbers = {part.guarantee.number for part in parts if part is not None and part.guarantee is not None}
    assert len(numbers) == 2
    assert {piece.number for piece in kept.pieces} == numbers
