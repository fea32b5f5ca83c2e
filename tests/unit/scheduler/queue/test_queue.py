"""The order of the queue, limits, which gangs may pass others, and estimates of when a gang starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from openpai.scheduler.cells.cluster import Freed
from openpai.scheduler.cells.model import Code
from openpai.scheduler.cells.model import Wait as HivedWait
from openpai.scheduler.model import Limit, Node, Preempt, Why
from openpai.scheduler.queue.scheduler import HivedScheduler
from openpai.scheduler.queue.waiting_queue import Lane, Queue, Waiting
from tests.unit.scheduler.queue.queues import HOUR_MS, LONG_MS, gang, placed

Text = Callable[..., str]


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


def test_a_user_at_the_limit_waits_and_delays_no_other_user(scheduler: HivedScheduler) -> None:
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
    assert "ann may run 4 GPUs at a time in virtual cluster a and runs 3; this needs 2" in why.message
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
    assert "ann may run 4 GPUs at a time in virtual cluster a and runs 3; this needs 2" in two.message
    assert "ann may run 5 GPUs at a time in all virtual clusters together and runs 3; this needs 3" in there.message
    scheduler.cancel("two")
    scheduler.release("one")
    assert placed(scheduler) == ["there"]


def test_a_users_own_limit_replaces_the_general_one_even_when_it_limits_nothing(
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


def test_a_gang_that_never_fits_delays_no_other(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("huge", 4, 4, 4))
    scheduler.add(gang("small", 1, submitted_at_ms=1))
    assert placed(scheduler, LONG_MS) == ["small"]
    why = scheduler.why("huge")
    assert why is not None
    assert (why.code, why.position) == (Why.NO_NODE, 0)


def test_a_gang_that_bad_hardware_blocks_delays_no_other(scheduler: HivedScheduler) -> None:
    scheduler.set_node(Node("r0n0", 16, 32768, 4, is_schedulable=False))
    scheduler.set_node(Node("r1n0", 16, 32768, 4, is_schedulable=False))
    scheduler.add(gang("both", 4, 4))
    scheduler.add(gang("small", 1, submitted_at_ms=1))
    assert placed(scheduler, LONG_MS) == ["small"]
    scheduler.release("small")
    scheduler.set_node(Node("r0n0", 16, 32768, 4))
    scheduler.set_node(Node("r1n0", 16, 32768, 4))
    assert placed(scheduler, LONG_MS) == ["both"]


def test_cancelling_a_job_that_blocks_others_starts_them_at_once(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 1))
    placed(scheduler, LONG_MS)
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
    assert (why.estimate.earliest_ms, why.estimate.basis[:7]) == (None, "too few")
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


def test_a_line_that_is_hopeless_is_left_out_but_not_one_without_an_answer() -> None:
    queue, freed = Queue(), Freed({"": 0, "a": 0})
    for number, size in enumerate((1, 2, 3)):
        queue.add(Waiting(gang(f"g{size}", size), (), number))
    asked: list[str] = []

    def is_hopeless(lane: Lane, waiting: Waiting) -> bool:
        asked.append(waiting.gang.id)
        return waiting.gang.id == "g2"

    for name in ("g2", "g3"):
        queue.lane_of(name).answer = HivedWait(name, Code.QUOTA_USED, "", "")
    heads = queue.heads(lambda waiting: (0, 0.0, 0, 0, 0, waiting.number), freed, lambda: 0, is_hopeless)
    assert [waiting.gang.id for _, waiting in heads] == ["g1", "g3"]
    assert asked == ["g2", "g3"]
    assert not queue.has_changed(freed)


def test_what_is_freed_while_gangs_are_looked_through_has_them_looked_at_again() -> None:
    """If only the next thing freed anywhere did that, a virtual cluster would depend on what others do."""
    queue, freed = Queue(), Freed({"": 0, "a": 0})
    queue.add(Waiting(gang("waits", 1), (), 1))
    heads = partial(queue.heads, lambda waiting: (0, 0.0, 0, 0, 0, waiting.number), freed, lambda: 0)
    for _ in heads():
        freed.grow("")
        freed.grow("a")
    assert [waiting.gang.id for _, waiting in heads()] == ["waits"]
    assert not [*heads()]


@pytest.mark.parametrize("seed", range(40))
def test_a_virtual_cluster_is_considered_whenever_something_that_matters_to_it_changed(seed: int) -> None:
    """A queue that compares only what may have changed answers as one that compares everything each time."""
    dice, names, waiting = Random(seed), ["", "a", "b", "c"], []
    some, every = [(Queue(), Freed(dict.fromkeys(names, 0))) for _ in range(2)]
    for number in range(120):
        change, name = dice.randrange(6), dice.choice(names[1:])
        gone = waiting.pop(dice.randrange(len(waiting))) if waiting and change == 1 else None
        if change == 0:
            waiting.append(f"g{number}")
        pause = dice.randrange(4)
        found = []
        for queue, freed in (some, every):
            if change == 0:
                may_borrow = number % 5 == 0
                asked = replace(gang(f"g{number}", 1 + number % 2), virtual_cluster=name, is_interruptible=may_borrow)
                queue.add(Waiting(asked, (), number))
            elif gone is not None:
                queue.remove(gone)
            elif change == 2:
                freed.grow("")
                freed.grow(name)
            every[1].lately.update(names)
            there = [name for name in names if queue.waiting_in(name)]
            found.append([sorted(queue.due(freed)), queue.due_among(dict.fromkeys(there), freed)])
            every[1].lately.update(names)
            if change >= 3:
                heads = queue.heads(lambda each: (0, 0.0, 0, 0, 0, each.number), freed, lambda: 0)
                # A pass may be broken off, and something may be freed or leave in the middle of it.
                for at, (_, waits) in enumerate(heads):
                    found[-1].append([waits.gang.id])
                    if at == pause:
                        if change == 3:
                            break
                        freed.grow("")
                        freed.grow(name)
                        queue.remove(waits.gang.id)
        assert found[0] == found[1]
        waiting = [each for each in waiting if each in some[0]]
