"""Gangs of thousands: what the scheduler does for them grows as they do, and no faster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Ask, Gang, Group, Limit, Node, Place
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.costs import assert_linear, lines_run

GPUS = 8


def cluster(nodes: int) -> HivedScheduler:
    cells = [{"cellType": "NODE", "cellAddress": f"n{number}"} for number in range(nodes)]
    config = {
        "physicalCluster": {
            "skuTypes": {"GPU": {"gpu": 1, "cpu": 4, "memory": "8192Mi"}},
            "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": GPUS, "isNodeLevel": True}},
            "physicalCells": cells,
        },
        "virtualClusters": {"default": {"virtualCells": [{"cellType": "NODE", "cellNumber": nodes}]}},
    }
    made = HivedScheduler(read_config(yaml.safe_dump(config)))
    for number in range(nodes):
        made.set_node(Node(f"n{number}", 32, 65536, GPUS))
    return made


def running(members: int, priority: int = 0, groups: tuple[Group, ...] = ()) -> HivedScheduler:
    made = cluster(members // GPUS)
    made.add(Gang("large", tuple(Ask(1, 64, 1) for _ in range(members)), priority=priority, groups=groups))
    (decision,) = made.decide(0, 10)
    assert isinstance(decision, Place)
    made.commit("large")
    return made


def leave_one_by_one(made: HivedScheduler, members: int) -> None:
    for member in range(members):
        made.release("large", (member,))


@pytest.mark.parametrize("priority", [0, -1])
def test_placing_a_gang_costs_as_much_as_it_has_members(priority: int) -> None:
    def work(members: int) -> Callable[[], object]:
        made = cluster(members // GPUS)
        made.decide(0, 10)
        made.add(Gang("large", tuple(Ask(1, 64, 1) for _ in range(members)), priority=priority))
        return lambda: made.decide(1, 10)

    assert_linear(work)


@pytest.mark.parametrize("priority", [0, -1])
def test_members_that_leave_one_by_one_cost_as_much_each_however_many_stay(priority: int) -> None:
    def work(members: int) -> Callable[[], object]:
        made = running(members, priority)
        return lambda: leave_one_by_one(made, members)

    assert_linear(work)


def books(scheduler: HivedScheduler) -> dict[str, Any]:
    """Return the whole state but for how often it changed."""
    return {key: value for key, value in scheduler.snapshot().items() if key != "memory"}


def test_members_that_leave_at_once_cost_less_than_one_by_one() -> None:
    together, single = running(400), running(400)
    at_once = lines_run(lambda: together.release("large", range(400)))
    assert at_once * 1.5 < lines_run(lambda: leave_one_by_one(single, 400))
    assert books(together) == books(single)


@pytest.mark.parametrize("seed", range(8))
def test_however_members_leave_the_books_are_the_same(seed: int) -> None:
    chance = random.Random(seed)
    groups = (Group(tuple(range(0, 40, 2))), Group(tuple(range(1, 40, 2)))) if seed % 2 else ()
    priority = chance.choice((0, -1))
    together, single = running(40, priority, groups), running(40, priority, groups)
    for each in (together, single):
        each.set_limits((Limit(50),))
    members = list(range(40))
    chance.shuffle(members)
    for start in range(0, 35, 7):
        leaving = members[start : start + 7]
        # A member that is released twice, or with another that has left before, is not counted twice.
        together.release("large", [*leaving, *members[:start], leaving[0]])
        for member in leaving:
            single.release("large", (member,))
        assert books(together) == books(single)
        together.decide(start, 1), single.decide(start, 1)
        assert books(together) == books(single)
    together.release("large")
    single.release("large", members[35:])
    assert books(together) == books(single)
    assert together.virtual_clusters()[0].running == 0
