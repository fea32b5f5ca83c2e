"""Where gangs of whole nodes wait: which node is left to drain for them, and when a free node goes to them first."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Gang, Node, Order
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.scheduling.invariants import audit
from tests.unit.scheduler.queue.queues import HOUR_MS, gang, placed

MINUTE_MS = 60_000
LEARNT_MS = 200 * HOUR_MS
"""When the scheduler has seen how long gangs run."""


@pytest.fixture
def nodes(text_of_racks: Callable[..., str]) -> HivedScheduler:
    """Return two nodes of four GPUs, where jobs called `quick` have run for 1 h and those called `slow` for 100 h."""
    scheduler = HivedScheduler(read_config(text_of_racks(1, {"a": {"RACK.NODE": 2}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    names = [f"{kind}-{number}" for kind in ("quick", "slow") for number in range(4)]
    for name in names:
        scheduler.add(gang(name, 1, job=name))
    assert sorted(placed(scheduler)) == names
    for now_ms, kind in ((HOUR_MS, "quick"), (100 * HOUR_MS, "slow")):
        for number in range(4):
            scheduler.release(f"{kind}-{number}")
        assert placed(scheduler, now_ms) == []
    return scheduler


def _node_of(scheduler: HivedScheduler, name: str) -> str:
    (spot,) = scheduler.core.cluster.gangs[name].spots
    return spot.node


def _run(scheduler: HivedScheduler, *gangs: Gang, at_ms: int = LEARNT_MS) -> None:
    for each in gangs:
        scheduler.add(each)
        assert placed(scheduler, at_ms) == [each.id]


def _start(scheduler: HivedScheduler) -> None:
    """Let two quick jobs run on one node and two slow ones on the other, while a gang waits for a whole node."""
    quick = [gang(name, 1, job=name, submitted_at_ms=LEARNT_MS) for name in ("quick-5", "quick-6")]
    slow = [gang(name, 1, job=name, submitted_at_ms=LEARNT_MS) for name in ("slow-5", "slow-6")]
    _run(scheduler, *quick, gang("rest of the node", 2, submitted_at_ms=LEARNT_MS), *slow)
    scheduler.release("rest of the node")
    scheduler.add(gang("whole", 4, submitted_at_ms=LEARNT_MS))
    assert placed(scheduler, LEARNT_MS + MINUTE_MS) == []
    assert {_node_of(scheduler, each.id) for each in quick} == {"r0n0"}
    assert {_node_of(scheduler, each.id) for each in slow} == {"r0n1"}


def test_a_small_gang_leaves_the_node_to_drain_that_should_be_free_soonest(nodes: HivedScheduler) -> None:
    _start(nodes)
    _run(nodes, gang("small", 1, submitted_at_ms=LEARNT_MS + MINUTE_MS), at_ms=LEARNT_MS + 2 * MINUTE_MS)
    assert _node_of(nodes, "small") == "r0n1"
    assert audit(nodes.core.cluster) == []


def test_the_node_is_left_to_drain_after_a_restart_too(nodes: HivedScheduler) -> None:
    _start(nodes)
    again = resume(json.loads(json.dumps(nodes.snapshot())))
    _run(again, gang("small", 1, submitted_at_ms=LEARNT_MS + MINUTE_MS), at_ms=LEARNT_MS + MINUTE_MS)
    assert _node_of(again, "small") == "r0n1"


def test_a_small_gang_starts_on_the_node_that_drains_if_no_other_in_use_has_room(nodes: HivedScheduler) -> None:
    _start(nodes)
    _run(nodes, gang("two", 2, submitted_at_ms=LEARNT_MS + MINUTE_MS), at_ms=LEARNT_MS + 2 * MINUTE_MS)
    _run(nodes, gang("small", 1, submitted_at_ms=LEARNT_MS + MINUTE_MS), at_ms=LEARNT_MS + 2 * MINUTE_MS)
    assert _node_of(nodes, "two") == "r0n1"
    assert _node_of(nodes, "small") == "r0n0"


def test_no_node_is_left_to_drain_once_no_gang_waits_for_a_whole_one(nodes: HivedScheduler) -> None:
    _start(nodes)
    nodes.cancel("whole")
    _run(nodes, gang("small", 1, submitted_at_ms=LEARNT_MS + MINUTE_MS), at_ms=LEARNT_MS + 2 * MINUTE_MS)
    assert _node_of(nodes, "small") == "r0n0"


def test_another_node_is_left_to_drain_when_hardware_of_the_first_is_bad(nodes: HivedScheduler) -> None:
    _start(nodes)
    nodes.set_node(Node("r0n0", 16, 32768, 4, bad_devices=frozenset({3})))
    _run(nodes, gang("small", 1, submitted_at_ms=LEARNT_MS + MINUTE_MS), at_ms=LEARNT_MS + 2 * MINUTE_MS)
    assert _node_of(nodes, "small") == "r0n0"


def test_a_new_configuration_leaves_no_node_to_drain_that_was_chosen_before(
    nodes: HivedScheduler, text_of_racks: Callable[..., str]
) -> None:
    _start(nodes)
    nodes.reconfigure(read_config(text_of_racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})))
    assert nodes.state.drains.of == {}
    assert not any(share.draining for shares in nodes.core.cluster.shares.values() for share in shares.values())


def _free_a_node(scheduler: HivedScheduler, wait_ms: int) -> list[str]:
    """Return who gets a node that is free when a small gang has waited that much longer than one of a whole node."""
    slow = [gang(name, 1, job=name, submitted_at_ms=LEARNT_MS) for name in ("slow-5", "slow-6", "slow-7", "slow-8")]
    _run(scheduler, *slow, gang("other node", 4, submitted_at_ms=LEARNT_MS))
    later_ms = LEARNT_MS + 2 * HOUR_MS
    scheduler.add(gang("small", 1, submitted_at_ms=later_ms - wait_ms))
    scheduler.add(gang("whole", 4, submitted_at_ms=later_ms))
    assert placed(scheduler, later_ms) == []
    scheduler.release("other node")
    return placed(scheduler, later_ms)


def test_a_free_node_goes_to_a_gang_of_a_whole_node_if_the_next_takes_longer_than_it_is_younger(
    nodes: HivedScheduler,
) -> None:
    assert _free_a_node(nodes, wait_ms=HOUR_MS) == ["whole"]


def test_a_free_node_goes_to_a_small_gang_that_has_waited_for_longer_than_that(nodes: HivedScheduler) -> None:
    assert _free_a_node(nodes, wait_ms=150 * HOUR_MS) == ["small"]


def test_a_free_node_goes_to_the_gang_that_is_first_by_age_where_that_is_the_order(nodes: HivedScheduler) -> None:
    nodes.set_orders({"a": Order.FIFO})
    assert _free_a_node(nodes, wait_ms=HOUR_MS) == ["small"]
