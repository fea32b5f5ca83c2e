"""The scheduler with quotas keeps to its numbers, and to nothing else."""

from __future__ import annotations

import pytest

from openpai.scheduler.model import Ask, Gang, Node, Place, Spot, Why
from openpai.simulator.quota import QuotaScheduler

HOUR = 3_600_000


def gang(name: str, *sizes: int, vc: str = "a", at_ms: int = 0, priority: int = 0) -> Gang:
    """Return a gang with members of these sizes."""
    return Gang(name, tuple([Ask(0, 0, size) for size in sizes]), vc, priority, at_ms)


def made(nodes: int = 2, *, is_spreading: bool = False, **quotas: int) -> QuotaScheduler:
    """Return a scheduler for nodes of four GPUs."""
    scheduler = QuotaScheduler(quotas or {"a": 4 * nodes}, is_spreading=is_spreading)
    for at in range(nodes):
        scheduler.set_node(Node(f"n{at}", 0, 0, 4))
    return scheduler


def placed(scheduler: QuotaScheduler, *gangs: Gang, now_ms: int = 0) -> dict[str, tuple[Spot, ...]]:
    """Add gangs and return where those that start are put."""
    for one in gangs:
        scheduler.add(one)
    decisions = scheduler.decide(now_ms, 100)
    return {decision.gang: decision.spots for decision in decisions if isinstance(decision, Place)}


def test_a_virtual_cluster_stays_within_its_number() -> None:
    scheduler = made(a=3, b=5)
    assert set(placed(scheduler, gang("1", 2), gang("2", 2), gang("3", 1), gang("4", 4, vc="b"))) == {"1", "3", "4"}
    wait = scheduler.why("2")
    assert wait is not None
    assert wait.code is Why.NOT_ENOUGH_FREE
    scheduler.release("1")
    assert set(placed(scheduler)) == {"2"}


def test_a_number_of_gpus_is_no_node() -> None:
    scheduler = made(is_spreading=True, a=4, b=4)
    placed(scheduler, gang("1", 1, vc="b"), gang("2", 1, vc="b"))
    assert not placed(scheduler, gang("whole", 4))
    wait = scheduler.why("whole")
    assert wait is not None
    assert wait.code is Why.FRAGMENTED


@pytest.mark.parametrize(("is_spreading", "nodes"), [(False, {"n0"}), (True, {"n0", "n1"})])
def test_it_packs_or_spreads(is_spreading: bool, nodes: set[str]) -> None:
    found = placed(made(is_spreading=is_spreading), gang("1", 1), gang("2", 1))
    assert {spot.node for spots in found.values() for spot in spots} == nodes


def test_a_gang_starts_whole_or_not_at_all() -> None:
    scheduler = made()
    assert not placed(scheduler, gang("big", 4, 3, 3))
    assert placed(scheduler, gang("all", 4, 4)).keys() == {"all"}


def test_no_gang_passes_one_that_has_waited_for_long() -> None:
    scheduler = made()
    placed(scheduler, gang("1", 4))
    assert not placed(scheduler, gang("old", 4, 4))
    assert placed(scheduler, gang("young", 1, at_ms=1), now_ms=1).keys() == {"young"}
    assert not placed(scheduler, gang("later", 1, at_ms=HOUR), now_ms=HOUR)


def test_a_rejected_gang_waits_where_it_was_and_a_cancelled_one_no_more() -> None:
    scheduler = made()
    placed(scheduler, gang("1", 4, 4))
    placed(scheduler, gang("2", 4, 4, at_ms=1))
    scheduler.reject("1")
    assert placed(scheduler).keys() == {"1"}
    scheduler.cancel("2")
    scheduler.release("1")
    assert not placed(scheduler)
    assert scheduler.why("2") is None


def test_what_runs_already_is_counted() -> None:
    scheduler = made()
    scheduler.restore(gang("there", 4), [Spot("n0", (0, 1, 2, 3))])
    assert placed(scheduler, gang("1", 4), gang("2", 4))["1"] == (Spot("n1", (0, 1, 2, 3)),)
    scheduler.release("there")
    assert placed(scheduler)["2"] == (Spot("n0", (0, 1, 2, 3)),)


def test_bad_devices_and_gone_nodes_are_not_used() -> None:
    scheduler = made()
    scheduler.set_node(Node("n0", 0, 0, 4, bad_devices=frozenset({0, 1})))
    scheduler.remove_node("n1")
    assert placed(scheduler, gang("1", 2), gang("2", 1)) == {"1": (Spot("n0", (2, 3)),)}
    scheduler.release("1")
    assert placed(scheduler) == {"2": (Spot("n0", (2,)),)}


def test_the_impossible_is_refused() -> None:
    scheduler = made(a=8, b=2)
    assert scheduler.refusal(gang("fine", 4, 4)) is None
    assert "has 2" in str(scheduler.refusal(gang("much", 1, 2, vc="b")))
    assert "no virtual cluster" in str(scheduler.refusal(gang("whose", 1, vc="c")))
    assert "nodes could not hold it" in str(scheduler.refusal(gang("wide", 5)))
