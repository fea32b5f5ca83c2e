"""Gangs that may be interrupted borrow idle devices, and are promoted or return them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node, Place, Preempt, Spot
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.unit.scheduler.queue.queues import HOUR_MS, gang, placed

Text = Callable[..., str]


def test_a_gang_that_may_be_interrupted_borrows_and_is_promoted_where_it_is(text_of_racks: Text) -> None:
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 1}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    scheduler.add(gang("own", 4, 4))
    assert placed(scheduler) == ["own"]
    scheduler.add(gang("waits", 4, submitted_at_ms=1))
    scheduler.add(gang("borrows", 4, submitted_at_ms=2, is_interruptible=True))
    assert placed(scheduler, 10) == ["borrows"]
    shares = {share.name: share for share in scheduler.virtual_clusters()}
    assert (shares["a"].borrowed.gpus, shares["a"].used.gpus) == (4, 8)
    before = scheduler.core.cluster.gangs["borrows"].spots
    scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    scheduler.release("own")
    # Waiting gangs have the first choice; what is left promotes the gang, and the others get their devices back.
    assert placed(scheduler, 20) == ["waits"]
    assert scheduler.core.cluster.gangs["borrows"].spots == before
    assert scheduler.state.running.gangs["borrows"].is_lent is False
    shares = {share.name: share for share in scheduler.virtual_clusters()}
    assert (shares["a"].borrowed.gpus, shares["a"].used.gpus) == (0, 8)
    scheduler.add(gang("lender", 4, virtual_cluster="b", submitted_at_ms=30))
    assert placed(scheduler, 30) == ["lender"]


def test_a_restart_from_records_knows_which_gangs_borrow(text_of_racks: Text) -> None:
    config = read_config(text_of_racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 1}}))
    gangs = {name: gang(name, *sizes, is_interruptible=True) for name, sizes in (("own", (4, 4)), ("borrows", (4,)))}
    old, new = HivedScheduler(config), HivedScheduler(config)
    for made in (old, new):
        for name in old.core.cluster.node_cells:
            made.set_node(Node(name, 16, 32768, 4))
    for each in gangs.values():
        old.add(each)
    places = {each.gang: each for each in old.decide(0, 100) if isinstance(each, Place)}
    assert old.borrowers() == {"borrows"}
    for name, place in sorted(places.items()):
        new.restore(gangs[name], place.spots, 0)
    new.restored()
    assert new.borrowers() == {"borrows"}
    shares = {share.name: (share.borrowed.gpus, share.used.gpus) for share in new.virtual_clusters()}
    assert shares == {"a": (4, 8), "b": (0, 0)}
    new.release("own")
    assert placed(new, 10) == []
    assert new.borrowers() == frozenset()
    hints = new.changed_hints()["borrows"]
    last = HivedScheduler(config)
    for name in old.core.cluster.node_cells:
        last.set_node(Node(name, 16, 32768, 4))
    spots = zip(places["borrows"].spots, hints, strict=True)
    last.restore(gangs["borrows"], [spot._replace(placement_hint=hint) for spot, hint in spots], 0)
    assert last.borrowers() == frozenset()


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
    for name, node, ends_ms in (("soon", "r0n0", HOUR_MS), ("later", "r0n1", 6 * HOUR_MS)):
        scheduler.restore(gang(name, 2, time_limit_ms=ends_ms), [Spot(node, (0, 1))], 3 * HOUR_MS)
    scheduler.add(gang("other", 4, virtual_cluster="b"))
    scheduler.add(gang("whole", 4))
    assert placed(scheduler, 3 * HOUR_MS) == ["other"]
    part = scheduler.core.cluster.gangs["soon"].parts[0]
    assert part is not None
    assert part.guarantee is not None
    assert [piece.number for piece in scheduler.state.kept["a"].pieces] == [part.guarantee.number]
    scheduler.restore(gang("guest", 2, priority=-1), [Spot("r0n0", (2, 3))], 0)
    held = scheduler.state.running.gangs["guest"]
    held.gang = gang("guest", 2, is_interruptible=True)
    scheduler.state.start_borrowing(held)
    scheduler.add(gang("never", 4, 4, submitted_at_ms=3 * HOUR_MS))
    assert placed(scheduler, 3 * HOUR_MS + 1) == []
    assert scheduler.state.running.gangs["guest"].is_lent
    scheduler.release("soon")
    (decision,) = scheduler.decide(3 * HOUR_MS + 2, 10)
    assert isinstance(decision, Preempt)
    assert (decision.gang, decision.victims) == ("whole", ("guest",))


def test_a_snapshot_keeps_which_placement_hints_have_yet_to_be_stored(scheduler: HivedScheduler) -> None:
    guest = gang("guest", 2, priority=-1)
    scheduler.add(guest)
    assert placed(scheduler) == ["guest"]
    assert not scheduler.changed_hints()
    scheduler.change(replace(guest, priority=0))
    following = resume(scheduler.snapshot())
    assert following.changed_hints() == scheduler.changed_hints() != {}
