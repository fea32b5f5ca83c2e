"""Who goes first, who is kept back, who may pass whom, and what a waiting gang is told about when."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from openpai.scheduler.hived.adapter import HivedScheduler
from openpai.scheduler.hived.reading import read_config
from openpai.scheduler.hived.replaying import resume
from openpai.scheduler.model import Ask, Gang, Limit, Node, Order, Place, Preempt, Spot, Why

HOUR_MS = 3_600_000
LONG_MS = 2 * HOUR_MS

Text = Callable[..., str]


@pytest.fixture
def scheduler(text_of_racks: Text) -> HivedScheduler:
    """Return a scheduler of one virtual cluster `a` with two nodes of four GPUs, and `b` with one."""
    made = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK": 1}, "b": {"RACK.NODE": 1}})))
    for name in made.core.cluster.boxes:
        made.set_node(Node(name, 16, 32768, 4))
    return made


def gang(name: str, *gpus: int, **more: Any) -> Gang:
    return Gang(name, tuple(Ask(1, 1024, number) for number in gpus), **{"virtual_cluster": "a", **more})


def placed(scheduler: HivedScheduler, now_ms: int = 0) -> list[str]:
    names = []
    for decision in scheduler.decide(now_ms, 100):
        assert isinstance(decision, Place), decision
        scheduler.commit(decision.gang)
        names.append(decision.gang)
    return names


def test_a_higher_rank_goes_before_older_gangs_of_the_same_priority(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("old", 4, submitted_at_ms=1))
    scheduler.add(gang("lifted", 4, submitted_at_ms=2, rank=1))
    scheduler.add(gang("urgent", 4, submitted_at_ms=3, priority=1))
    assert placed(scheduler) == ["urgent", "lifted"]


def test_who_used_less_goes_first_until_use_is_forgotten_or_not_compared(scheduler: HivedScheduler) -> None:
    scheduler.learn_use("a", "heavy", 8 * HOUR_MS, 0)
    scheduler.learn_use("b", "light", 99 * HOUR_MS, 0)
    for number in range(3):
        scheduler.add(gang(f"heavy{number}", 4, user="heavy", submitted_at_ms=number))
    scheduler.add(gang("light", 4, user="light", submitted_at_ms=9))
    why = scheduler.why("heavy1")
    assert why is not None
    assert (why.position, why.ahead) == (3, ("heavy0", "light"))
    assert placed(scheduler, 10) == ["light", "heavy0"]
    scheduler.release("light")
    scheduler.set_fairness(None)
    scheduler.add(gang("light2", 4, user="light", submitted_at_ms=20))
    assert placed(scheduler, 30) == ["heavy1"]


def test_users_who_begin_together_take_turns(scheduler: HivedScheduler) -> None:
    for number in range(8):
        scheduler.add(gang(f"ann{number}", 1, user="ann", submitted_at_ms=number))
    for number in range(8):
        scheduler.add(gang(f"bob{number}", 1, user="bob", submitted_at_ms=10 + number))
    turns = placed(scheduler, 20)
    assert turns == ["ann0", "bob0", "ann1", "bob1", "ann2", "bob2", "ann3", "bob3"]


def test_what_runs_counts_as_it_runs(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("first", 4, user="ann"))
    assert placed(scheduler) == ["first"]
    scheduler.add(gang("second", 2, user="ann", submitted_at_ms=1))
    scheduler.add(gang("third", 4, user="bob", submitted_at_ms=2))
    assert placed(scheduler, HOUR_MS // 4) == ["third"]


def test_a_user_at_the_limit_waits_and_holds_nobody_up(scheduler: HivedScheduler) -> None:
    scheduler.set_limits([Limit(1, "a"), Limit(4, "a", "ann"), Limit(9, "b", "ann")])
    scheduler.add(gang("one", 3, user="ann"))
    scheduler.add(gang("two", 2, user="ann", submitted_at_ms=1))
    scheduler.add(gang("guest", 2, user="ann", priority=-1, submitted_at_ms=1))
    scheduler.add(gang("other", 1, user="bob", submitted_at_ms=2))
    scheduler.add(gang("more", 1, user="bob", submitted_at_ms=3))
    scheduler.add(gang("elsewhere", 4, user="ann", virtual_cluster="b"))
    assert set(placed(scheduler, LONG_MS)) == {"one", "other", "elsewhere"}
    why = scheduler.why("two")
    assert why is not None
    assert why.code is Why.USER_LIMIT
    assert "ann may run 4 GPUs at a time in virtual cluster a and runs 3; this needs 2" in why.told
    scheduler.add(gang("huge", 5, user="ann", submitted_at_ms=2))
    scheduler.add(gang("three", 2, user="ann", submitted_at_ms=3))
    behind = scheduler.why("three")
    assert behind is not None
    assert behind.position == 2
    scheduler.cancel("three")
    scheduler.release("one")
    assert placed(scheduler, LONG_MS) == ["two", "guest"]


def test_a_limit_over_all_virtual_clusters_holds_beside_the_one_of_each(scheduler: HivedScheduler) -> None:
    scheduler.set_limits([Limit(5), Limit(4, "a"), Limit(9, "b")])
    scheduler.add(gang("one", 3, user="ann"))
    scheduler.add(gang("two", 2, user="ann", submitted_at_ms=1))
    scheduler.add(gang("there", 3, user="ann", submitted_at_ms=2, virtual_cluster="b"))
    scheduler.add(gang("his", 1, user="bob", submitted_at_ms=3, virtual_cluster="b"))
    assert set(placed(scheduler)) == {"one", "his"}
    two, there = scheduler.why("two"), scheduler.why("there")
    assert two is not None
    assert there is not None
    assert "ann may run 4 GPUs at a time in virtual cluster a and runs 3; this needs 2" in two.told
    assert "ann may run 5 GPUs at a time in all virtual clusters together and runs 3; this needs 3" in there.told
    scheduler.cancel("two")
    scheduler.release("one")
    assert placed(scheduler) == ["there"]


def test_a_limit_of_ones_own_takes_the_place_of_everybodys_also_where_it_limits_nothing(
    scheduler: HivedScheduler,
) -> None:
    scheduler.set_limits([Limit(2), Limit(1, "a"), Limit(None, "a", "ann"), Limit(None, "", "ann")])
    scheduler.add(gang("one", 4, user="ann"))
    scheduler.add(gang("other", 2, user="bob", submitted_at_ms=1))
    assert placed(scheduler) == ["one"]


def test_a_raised_limit_lets_a_gang_go_at_once(scheduler: HivedScheduler) -> None:
    scheduler.set_limits([Limit(1)])
    scheduler.add(gang("two", 2, user="ann"))
    assert placed(scheduler) == []
    scheduler.set_limits([])
    assert placed(scheduler) == ["two"]


MINUTE_MS = 60_000


def test_only_what_is_gone_in_time_starts_on_cells_kept_for_a_gang_that_waited_long(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 2, time_limit_ms=LONG_MS + MINUTE_MS))
    assert placed(scheduler) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS + 1))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("too-long", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS + 1))
    scheduler.add(gang("unlimited", 1, submitted_at_ms=LONG_MS))
    scheduler.add(gang("short", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS))
    assert placed(scheduler, LONG_MS) == ["short"]
    why = scheduler.why("too-long")
    assert why is not None
    assert (why.code, "kept for whole" in why.told) == (Why.BEHIND_OLDER_JOB, True)
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


def test_everything_but_the_kept_cells_stays_open_to_all(scheduler: HivedScheduler) -> None:
    for name, gpus in (("short", 3), ("long", 3)):
        scheduler.add(gang(name, gpus, time_limit_ms=LONG_MS + (HOUR_MS if name == "short" else 2 * HOUR_MS)))
        assert placed(scheduler) == [name]
    scheduler.add(gang("whole", 4))
    assert placed(scheduler, LONG_MS) == []
    kept = scheduler.state.kept["a"]
    part = scheduler.core.cluster.gangs["short"].parts[0]
    assert part is not None
    assert (kept.gang, kept.closed_ms, kept.free_ms) == ("whole", LONG_MS, LONG_MS + HOUR_MS)
    assert [piece.box for piece in kept.pieces] == [part.box.index]
    for name in ("one", "two"):
        scheduler.add(gang(name, 1, submitted_at_ms=LONG_MS))
    assert placed(scheduler, LONG_MS + 1) == ["one"]
    one = scheduler.core.cluster.gangs["one"].parts[0]
    assert one is not None
    assert one.box is not part.box


def test_a_time_limit_counts_from_the_true_start_after_a_restart(scheduler: HivedScheduler) -> None:
    runs = gang("runs", 2, time_limit_ms=HOUR_MS)
    scheduler.restore(runs, [Spot("r0n0", (0, 1))], LONG_MS - HOUR_MS + MINUTE_MS)
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=LONG_MS - HOUR_MS * 3 // 4))
    assert placed(scheduler, LONG_MS) == []
    assert scheduler.state.kept["a"].free_ms == LONG_MS + MINUTE_MS
    scheduler.add(gang("short", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS))
    scheduler.add(gang("longer", 1, submitted_at_ms=LONG_MS, time_limit_ms=MINUTE_MS + 1))
    assert placed(scheduler, LONG_MS) == ["short"]


def test_nobody_starts_on_closed_cells_however_short(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 2))
    assert placed(scheduler) == ["runs"]
    scheduler.add(gang("whole", 4, 4))
    assert placed(scheduler, LONG_MS) == []
    scheduler.add(gang("short", 1, submitted_at_ms=3, time_limit_ms=1))
    assert placed(scheduler, LONG_MS + 1) == []


LONGEST_H = 10


@pytest.mark.parametrize("seed", range(12))
def test_nobody_is_passed_for_ever(seed: int, text_of_racks: Text) -> None:
    """A gang that many smaller ones could pass for ever waits no longer than what is promised in the docs."""
    dice = random.Random(seed)
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK": 2}})))
    for name in scheduler.core.cluster.boxes:
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
            scheduler.state.standing.run_times = type(scheduler.state.standing.run_times)()
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


@pytest.mark.parametrize("seed", range(8))
def test_nobody_is_passed_by_the_shortest_for_longer_than_is_promised(seed: int, text_of_racks: Text) -> None:
    dice = random.Random(seed)
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK": 2}})))
    for name in scheduler.core.cluster.boxes:
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


def fits_like(scheduler: HivedScheduler, other: str, started: str) -> bool:
    """Return whether a gang asks for the same as one that started, so that it could have had its place."""
    waiting, held = scheduler.state.queue.get(other), scheduler.state.standing.held[started]
    return waiting is not None and len(waiting.gang.asks) == len(held.gang.asks)


def test_what_never_fits_holds_nobody_up(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("huge", 4, 4, 4))
    scheduler.add(gang("small", 1, submitted_at_ms=1))
    assert placed(scheduler, LONG_MS) == ["small"]
    why = scheduler.why("huge")
    assert why is not None
    assert (why.code, why.position) == (Why.NO_NODE, 0)


def test_what_bad_hardware_keeps_from_running_holds_nobody_up(scheduler: HivedScheduler) -> None:
    scheduler.set_node(Node("r0n0", 16, 32768, 4, is_schedulable=False))
    scheduler.set_node(Node("r1n0", 16, 32768, 4, is_schedulable=False))
    scheduler.add(gang("both", 4, 4))
    scheduler.add(gang("small", 1, submitted_at_ms=1))
    assert placed(scheduler, LONG_MS) == ["small"]
    scheduler.release("small")
    scheduler.set_node(Node("r0n0", 16, 32768, 4))
    scheduler.set_node(Node("r1n0", 16, 32768, 4))
    assert placed(scheduler, LONG_MS) == ["both"]


def test_cancelling_who_holds_others_up_lets_them_go_at_once(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 1))
    placed(scheduler)
    scheduler.add(gang("whole", 4, 4))
    assert placed(scheduler, LONG_MS) == []
    scheduler.add(gang("small", 1, submitted_at_ms=1))
    assert placed(scheduler, LONG_MS) == []
    scheduler.cancel("whole")
    assert placed(scheduler, LONG_MS) == ["small"]


def test_an_estimate_rests_on_time_limits_and_on_how_long_others_ran(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 4, 4, user="ann"))
    assert placed(scheduler) == ["runs"]
    scheduler.add(gang("next", 4, user="bob", submitted_at_ms=1))
    placed(scheduler, 1)
    why = scheduler.why("next", 1)
    assert why is not None
    assert why.estimate is not None
    assert (why.estimate.earliest_ms, why.estimate.basis[:8]) == (None, "unknown:")
    scheduler.change(gang("runs", 4, 4, user="ann", time_limit_ms=5_000))
    limited = scheduler.why("next", 1_000)
    assert limited is not None
    assert limited.estimate is not None
    assert (limited.estimate.earliest_ms, limited.estimate.latest_ms) == (1_000, 5_000)
    assert limited.estimate.basis == "time limits of running jobs"


def test_an_estimate_takes_the_quartiles_of_those_that_ran_longer_than_so_far(scheduler: HivedScheduler) -> None:
    for number, ran_ms in enumerate((10, 1_000, 2_000, 3_000, 4_000)):
        scheduler.add(gang(f"past{number}", 1, user="ann"))
        assert placed(scheduler, 10_000 * number) == [f"past{number}"]
        scheduler.release(f"past{number}")
        placed(scheduler, 10_000 * number + ran_ms)
    scheduler.add(gang("runs", 4, 4, user="ann", submitted_at_ms=100_000))
    assert placed(scheduler, 100_000) == ["runs"]
    scheduler.add(gang("before", 4, 4, user="ann", submitted_at_ms=100_001))
    scheduler.add(gang("next", 4, 4, user="bob", submitted_at_ms=100_002))
    scheduler.set_fairness(None)
    assert placed(scheduler, 100_500) == []
    first, second = scheduler.why("before", 100_500), scheduler.why("next", 100_500)
    assert first is not None
    assert second is not None
    assert first.estimate is not None
    assert second.estimate is not None
    # Longer than half a second ran 1, 2, 3 and 4 seconds; all of them: 0, 1, 2, 3 and 4.
    assert (first.estimate.earliest_ms, first.estimate.latest_ms) == (102_000, 104_000)
    assert (second.estimate.earliest_ms, second.estimate.latest_ms) == (103_000, 107_000)
    assert "run times of ann's jobs that finished" in second.estimate.basis


def test_a_changed_priority_moves_a_waiting_gang_and_stays_with_a_running_one(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 4, 4, priority=5))
    assert placed(scheduler) == ["runs"]
    scheduler.add(gang("waits", 4, submitted_at_ms=1))
    scheduler.add(gang("lifted", 4, submitted_at_ms=2))
    assert placed(scheduler, 1) == []
    before = scheduler.core.spots_held("runs")
    scheduler.change(gang("lifted", 4, submitted_at_ms=2, priority=3))
    scheduler.change(gang("runs", 4, 4, priority=1))
    assert scheduler.core.spots_held("runs") == before
    decision, other = scheduler.decide(2, 100)
    assert isinstance(decision, Preempt)
    assert (decision.gang, decision.victims, other.gang) == ("lifted", ("runs",), "waits")
    scheduler.release("runs")
    assert placed(scheduler, 3) == ["lifted", "waits"]


def test_a_gang_that_may_be_interrupted_borrows_and_is_promoted_where_it_is(text_of_racks: Text) -> None:
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 1}})))
    for name in scheduler.core.cluster.boxes:
        scheduler.set_node(Node(name, 16, 32768, 4))
    scheduler.add(gang("own", 4, 4))
    assert placed(scheduler) == ["own"]
    scheduler.add(gang("waits", 4, submitted_at_ms=1))
    scheduler.add(gang("borrows", 4, submitted_at_ms=2, is_interruptible=True))
    assert placed(scheduler, 10) == ["borrows"]
    views = {view.name: view for view in scheduler.virtual_clusters()}
    assert (views["a"].borrowed.gpus, views["a"].used.gpus) == (4, 8)
    before = scheduler.core.cluster.gangs["borrows"].spots
    scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    scheduler.release("own")
    # Whoever waits has the first choice; what is left promotes the gang, and the others get their devices back.
    assert placed(scheduler, 20) == ["waits"]
    assert scheduler.core.cluster.gangs["borrows"].spots == before
    assert scheduler.state.standing.held["borrows"].is_lent is False
    views = {view.name: view for view in scheduler.virtual_clusters()}
    assert (views["a"].borrowed.gpus, views["a"].used.gpus) == (0, 8)
    scheduler.add(gang("lender", 4, virtual_cluster="b", submitted_at_ms=30))
    assert placed(scheduler, 30) == ["lender"]


def test_what_is_lent_comes_back_when_its_owner_needs_it(scheduler: HivedScheduler) -> None:
    for name, owner in (("own", "a"), ("other", "b")):
        scheduler.add(gang(name, *((4, 4) if owner == "a" else (2,)), virtual_cluster=owner))
    assert placed(scheduler) == ["own", "other"]
    scheduler.add(gang("borrows", 4, 4, 4, is_interruptible=True))
    scheduler.add(gang("small", 2, submitted_at_ms=1, is_interruptible=True, job="u~small"))
    free = 16 - 8 - 2
    assert placed(scheduler, 10) == ["small"]
    taken = scheduler.core.cluster.gangs["small"].parts[0]
    scheduler.add(gang("needs", 2, virtual_cluster="b", submitted_at_ms=2, job="u~needs"))
    found = scheduler.decide(20, 10)
    assert len(found) == 1
    if isinstance(found[0], Preempt):
        assert found[0].victims == ("small",)
        assert "may be interrupted" in found[0].whys[0]
        scheduler.release("small")
        scheduler.add(gang("small", 2, submitted_at_ms=1, is_interruptible=True, job="u~small"))
        assert "needs" in placed(scheduler, 30)
    assert taken is not None
    assert free == 6


def test_only_gangs_that_may_be_interrupted_borrow(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("own", 4, 4))
    assert placed(scheduler) == ["own"]
    scheduler.add(gang("waits", 4, submitted_at_ms=1))
    scheduler.add(gang("pinned", 4, submitted_at_ms=1, is_interruptible=True, pinned_cell="none"))
    assert placed(scheduler, 10) == []


def test_what_borrows_kept_cells_is_not_promoted_onto_them(scheduler: HivedScheduler) -> None:
    for name, node, ends_ms in (("soon", "r0n0", 4 * HOUR_MS), ("later", "r0n1", 9 * HOUR_MS)):
        scheduler.restore(gang(name, 2, time_limit_ms=ends_ms), [Spot(node, (0, 1))], 0)
    scheduler.add(gang("other", 4, virtual_cluster="b"))
    scheduler.add(gang("whole", 4))
    assert placed(scheduler, 3 * HOUR_MS) == ["other"]
    assert [piece.box for piece in scheduler.state.kept["a"].pieces] == [0]
    scheduler.restore(gang("guest", 2, priority=-1), [Spot("r0n0", (2, 3))], 0)
    held = scheduler.state.standing.held["guest"]
    held.gang = gang("guest", 2, is_interruptible=True)
    scheduler.state.lend(held)
    scheduler.add(gang("never", 4, 4, submitted_at_ms=3 * HOUR_MS))
    assert placed(scheduler, 3 * HOUR_MS + 1) == []
    assert scheduler.state.standing.held["guest"].is_lent
    scheduler.release("soon")
    (decision,) = scheduler.decide(3 * HOUR_MS + 2, 10)
    assert isinstance(decision, Preempt)
    assert (decision.gang, decision.victims) == ("whole", ("guest",))
