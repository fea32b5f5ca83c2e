"""Devices that a virtual cluster lends: those it would have to take back if it wanted all it was promised."""

from __future__ import annotations

import pytest

from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import read_promises
from openpai.scheduler.model import Ask, Gang, Lent, Node, Place, Preempt
from openpai.scheduler.queue.scheduler import HivedScheduler


def running(promises: str, nodes: int, gangs: list[tuple[str, int, int]]) -> HivedScheduler:
    """Return a scheduler with gangs (cluster, priority, GPUs) that run on 8-GPU nodes."""
    fleet = [Node(f"n{number}", cpus=32, memory_mb=262_144, gpus=8) for number in range(nodes)]
    scheduler = HivedScheduler(plan([(node, "V100") for node in fleet], read_promises(promises)))
    for node in fleet:
        scheduler.set_node(node)
    for number, (name, priority, gpus) in enumerate(gangs):
        scheduler.add(Gang(f"g{number}", (Ask(0, 0, gpus),), name, priority, user=f"u{number % 2}"))
        (decision,) = scheduler.decide(number, 1)
        assert isinstance(decision, Place)
        scheduler.commit(decision.gang)
    return scheduler


def lent_by(promises: str, nodes: int, gangs: list[tuple[str, int, int]]) -> dict[str, int]:
    """Return the GPUs that each virtual cluster lends."""
    scheduler = running(promises, nodes, gangs)
    return {each.name: each.lent.gpus for each in scheduler.virtual_clusters()}


@pytest.mark.parametrize(
    ("promises", "nodes", "gangs", "lent"),
    [
        # The rest of a cell that serves a promise.
        ("a: 1 node, default: rest", 1, [("a", 0, 4), ("default", -1, 3)], {"a": 3}),
        # Promises that no cell serves yet: too little is idle for them.
        ("a: 2 nodes, default: rest", 2, [("default", -1, 8)], {"a": 8}),
        # Enough is idle for all promises.
        ("a: 1 node, b: 1 node", 3, [("b", -1, 8)], {}),
        # A virtual cluster lends nothing to its own jobs.
        ("a: 1 node", 1, [("a", 0, 4), ("a", -1, 3)], {}),
        ("a: 1 node", 1, [("a", -1, 8)], {}),
    ],
)
def test_what_the_owner_would_have_to_take_back_is_lent(
    promises: str, nodes: int, gangs: list[tuple[str, int, int]], lent: dict[str, int]
) -> None:
    assert {name: gpus for name, gpus in lent_by(promises, nodes, gangs).items() if gpus} == lent


@pytest.mark.parametrize(
    ("promises", "nodes", "gangs", "lent"),
    [
        ("a: 1 node, b: 1 node", 2, [("a", 0, 4), ("b", 0, 8), ("b", -1, 3)], {"a": {"b": 3}}),
        ("a: 2 nodes, b: 1 node", 3, [("b", 0, 8), ("b", -1, 8)], {"a": {"b": 8}, "b": {}}),
        # Twelve GPUs are missing, of which b lends a quarter, and not to itself.
        (
            "a: 3 nodes, b: 1 node, default: rest",
            4,
            [("b", -1, 8), ("default", -1, 4)],
            {"a": {"b": 8, "default": 1}, "b": {"default": 3}},
        ),
    ],
)
def test_who_uses_what_is_lent_is_said(
    promises: str, nodes: int, gangs: list[tuple[str, int, int]], lent: dict[str, dict[str, int]]
) -> None:
    scheduler = running(promises, nodes, gangs)
    found = {each.name: each for each in scheduler.virtual_clusters()}
    for name, to in lent.items():
        assert {user: amount.gpus for user, amount in found[name].lent_to.items()} == to
        assert found[name].lent.gpus == sum(to.values())


def test_what_users_borrow_is_counted_by_user() -> None:
    scheduler = running("a: 2 nodes, b: 1 node", 3, [("b", -1, 8), ("b", -1, 4), ("a", 0, 2)])
    assert {key: of.gpus for key, of in scheduler.lending().borrowed.items()} == {("b", "u0"): 8, ("b", "u1"): 4}
    scheduler.release("g1")
    assert {key: of.gpus for key, of in scheduler.lending().borrowed.items()} == {("b", "u0"): 8}


def test_a_waiting_gang_knows_who_uses_its_virtual_cluster_and_of_what_is_reserved_for_it() -> None:
    scheduler = running("a: 2 nodes, b: 1 node", 3, [("a", 0, 6), ("b", 0, 8), ("b", -1, 8)])
    scheduler.add(Gang("waits", (Ask(0, 0, 8), Ask(0, 0, 8)), "a", submitted_at_ms=9))
    scheduler.add(Gang("oppo", (Ask(0, 0, 8),), "a", priority=-1, submitted_at_ms=10))
    assert scheduler.decide(10, 10) == ()
    why, oppo = scheduler.why("waits"), scheduler.why("oppo")
    assert why is not None
    assert oppo is not None
    assert why.lent == (Lent("b", 8, 32),)
    assert oppo.lent == ()
    scheduler.add(Gang("needs", (Ask(0, 0, 4),), "a", submitted_at_ms=11, priority=5))
    (decision,) = scheduler.decide(11, 10)
    assert isinstance(decision, Preempt)
    why = scheduler.why("needs")
    assert why is not None
    assert why.lent == (Lent("b", 4, 16),)
