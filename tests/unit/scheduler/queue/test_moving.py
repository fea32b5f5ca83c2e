"""Interruptible gangs move so that a waiting gang gets whole cells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from openpai.scheduler.model import Gang, Node, Place, Preempt
from openpai.scheduler.queue.moves import MOVED_AFTER_MS, MOVES_AN_HOUR
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from openpai.simulator.cluster import generated
from tests.scheduling.invariants import audit
from tests.unit.scheduler.queue.queues import HOUR_MS, gang, placed

NOW_MS = 2 * HOUR_MS
SAVES = {"is_interruptible": True, "checkpoint_every_ms": 60_000}


def scattered(nodes: int = 2, **more: object) -> HivedScheduler:
    """Return a scheduler of nodes with 8 GPUs where a gang of one GPU is left on each, for two hours now."""
    config = generated(nodes, {"a": 1.0})
    scheduler = HivedScheduler(config)
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 64, 1 << 20, 8))
    scheduler.set_movable({"a"})
    for number in range(nodes):
        scheduler.add(gang(f"fill{number}", 7))
        scheduler.add(gang(f"small{number}", 1, job=f"u~small{number}", **{**SAVES, **more}))
    assert len(placed(scheduler)) == 2 * nodes
    for number in range(nodes):
        scheduler.release(f"fill{number}")
    assert len({scheduler.core.cluster.gangs[f"small{n}"].spots[0].node for n in range(nodes)}) == nodes
    assert placed(scheduler, 1) == []
    return scheduler


def big(name: str = "big", *gpus: int, **more: object) -> Gang:
    return gang(name, *(gpus or (8,)), job=f"u~{name}", submitted_at_ms=NOW_MS, **more)


def only_preempt(scheduler: HivedScheduler, now_ms: int) -> Preempt:
    (found,) = scheduler.decide(now_ms, 10)
    assert isinstance(found, Preempt), found
    return found


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_small_gang_moves_for_a_whole_node(is_restarted: bool) -> None:
    scheduler = scattered()
    scheduler.add(big())
    found = only_preempt(scheduler, NOW_MS)
    (moved,) = found.moved
    assert (found.gang, found.victims) == ("big", (moved,))
    assert found.whys == (
        "moved to make room for u~big; other resources are reserved for it, and it starts there at once",
    )
    if is_restarted:
        scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    node = scheduler.core.cluster.gangs[moved].spots[0].node
    small = scheduler.state.running.gangs[moved].gang
    assert audit(scheduler.core.cluster) == []
    # Nothing else gets the cells that are reserved for the two, and the rest stays open.
    scheduler.add(gang("other", 7, submitted_at_ms=NOW_MS + 1))
    scheduler.add(gang("fits", 6, submitted_at_ms=NOW_MS + 2))
    assert placed(scheduler, NOW_MS + 1) == ["fits"]
    scheduler.release(moved)
    if is_restarted:
        scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    # On the platform the next attempt of a job is another gang.
    scheduler.add(replace(small, id=f"{moved}/1", attempt=1))
    places = {each.gang: each for each in scheduler.decide(NOW_MS + 2, 10) if isinstance(each, Place)}
    assert places["big"].spots[0].node == node
    assert places[f"{moved}/1"].spots[0].node != node
    assert audit(scheduler.core.cluster) == []
    assert scheduler.state.moves.open == {}
    assert [(work.moves, work.lost_ms) for work in scheduler.state.moves.work.values()] == [(1, 60_000)]


def test_the_cheapest_gangs_move() -> None:
    scheduler = scattered(3, checkpoint_every_ms=None)
    for name, at_ms in (("small0", NOW_MS - 50), ("small1", NOW_MS - 5_000), ("small2", NOW_MS - 500_000)):
        scheduler.checkpointed(name, at_ms)
    scheduler.add(big("two", 8, 8))
    assert only_preempt(scheduler, NOW_MS).moved == {"small0": 50, "small1": 5_000}


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("it is switched off", lambda each: each.set_movable(())),
        ("the gangs may not be interrupted", lambda each: _change(each, is_interruptible=False)),
        ("they are more urgent", lambda each: _change(each, priority=5)),
        ("they were started too often", lambda each: _change(each, attempt=3)),
        ("each is one of several of its job", lambda each: _change(each, job="u~many")),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_gangs_stay(why: str, change: object) -> None:
    scheduler = scattered()
    change(scheduler)  # type: ignore[operator]
    scheduler.add(big())
    assert scheduler.decide(NOW_MS, 10) == (), why


def _change(scheduler: HivedScheduler, **more: object) -> None:
    for name, held in list(scheduler.state.running.gangs.items()):
        if name.startswith("small"):
            scheduler.change(replace(held.gang, **more))  # type: ignore[arg-type]


def test_a_move_must_save_more_than_it_loses() -> None:
    scheduler = scattered(checkpoint_every_ms=None)
    # Gangs like those that run take two hours and a minute: the node is free in a minute anyway.
    for number in range(8):
        scheduler.learn_run_time(gang(f"old{number}", 1, job=f"u~small{number}"), NOW_MS + 60_000)
    scheduler.add(big())
    assert scheduler.decide(NOW_MS, 10) == ()
    # If such gangs run for two days, half of that is a gain.
    scheduler = scattered(checkpoint_every_ms=None)
    for number in range(8):
        scheduler.learn_run_time(gang(f"old{number}", 1, job=f"u~small{number}"), 48 * HOUR_MS)
    scheduler.add(big())
    assert only_preempt(scheduler, NOW_MS).moved != ()


def test_a_gang_that_started_a_short_time_ago_stays_until_it_has_run_for_long_enough() -> None:
    scheduler = scattered()
    scheduler.add(gang("early", 8, submitted_at_ms=10))
    assert scheduler.decide(MOVED_AFTER_MS - 1, 10) == ()
    again_ms = scheduler.look_again_ms()
    assert again_ms is not None
    # Nothing happens until then: the scheduler looks again by itself.
    assert only_preempt(scheduler, max(again_ms, MOVED_AFTER_MS)).moved != ()


def test_only_so_many_gangs_move_in_an_hour() -> None:
    scheduler = scattered(MOVES_AN_HOUR + 4)
    for number in range(MOVES_AN_HOUR + 2):
        scheduler.add(big(f"big{number}"))
    moved = [name for each in scheduler.decide(NOW_MS, 100) if isinstance(each, Preempt) for name in each.moved]
    assert len(moved) == MOVES_AN_HOUR
    later = [each for each in scheduler.decide(NOW_MS + HOUR_MS, 100) if isinstance(each, Preempt) and each.moved]
    assert len(later) == 2


@pytest.mark.parametrize("has_left", [False, True])
def test_a_gang_that_does_not_come_back_or_need_not_leave_frees_its_cells(has_left: bool) -> None:
    scheduler = scattered()
    scheduler.add(big())
    (moved,) = only_preempt(scheduler, NOW_MS).moved
    if has_left:
        scheduler.release(moved)
        assert placed(scheduler, NOW_MS) == ["big"]
        scheduler.decide(NOW_MS + 61_000, 10)
    else:
        scheduler.cancel("big")
        assert all(part.guarantee for part in scheduler.core.cluster.gangs[moved].parts if part)
    assert scheduler.state.moves.open == {}
    assert audit(scheduler.core.cluster) == []
    used = {view.name: view.used.gpus for view in scheduler.virtual_clusters()}
    assert used == {"a": 9 if has_left else 2}


def test_a_limit_of_its_user_does_not_keep_a_moved_gang_from_its_cells() -> None:
    from openpai.scheduler.model import Limit

    scheduler = scattered(user="ann")
    scheduler.set_limits([Limit(2, user="ann")])
    scheduler.add(big())
    (moved,) = only_preempt(scheduler, NOW_MS).moved
    small = scheduler.state.running.gangs[moved].gang
    scheduler.add(gang("greedy", 1, user="ann"))
    scheduler.release(moved)
    assert placed(scheduler, NOW_MS + 1) == ["big"]
    scheduler.add(replace(small, attempt=1))
    assert placed(scheduler, NOW_MS + 2) == [moved]


def test_both_owners_are_answered_why() -> None:
    scheduler = scattered()
    scheduler.add(big())
    (moved,) = only_preempt(scheduler, NOW_MS).moved
    why = scheduler.why("big", NOW_MS)
    assert why is not None
    assert why.message == (
        f"its resources are reserved; it waits for u~{moved} to leave them, which is moved to make room for it"
    )
    small = scheduler.state.running.gangs[moved].gang
    scheduler.release(moved)
    scheduler.add(replace(small, id="next", attempt=1))
    why = scheduler.why("next", NOW_MS)
    assert why is not None
    assert why.message == "it was moved to make room for u~big; its other resources are reserved"
