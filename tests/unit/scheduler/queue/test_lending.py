"""Devices that a virtual cluster lends: those it would have to take back if it wanted all it was promised."""

from __future__ import annotations

import pytest

from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import read_promises
from openpai.scheduler.model import Ask, Gang, Node, Place
from openpai.scheduler.queue.scheduler import HivedScheduler


def lent_by(promises: str, nodes: int, gangs: list[tuple[str, int, int]]) -> dict[str, int]:
    """Return the GPUs that each virtual cluster lends while gangs (cluster, priority, GPUs) run on 8-GPU nodes."""
    fleet = [Node(f"n{number}", cpus=32, memory_mb=262_144, gpus=8) for number in range(nodes)]
    scheduler = HivedScheduler(plan([(node, "V100") for node in fleet], read_promises(promises)))
    for node in fleet:
        scheduler.set_node(node)
    for number, (name, priority, gpus) in enumerate(gangs):
        scheduler.add(Gang(f"g{number}", (Ask(0, 0, gpus),), name, priority))
        (decision,) = scheduler.decide(number, 1)
        assert isinstance(decision, Place)
        scheduler.commit(decision.gang)
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
