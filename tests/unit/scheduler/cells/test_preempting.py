"""Preemption: never more gangs than needed, least work lost first, and undone when no gang needs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, GangRequest, Preempt, State, Topology, Wait
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

Make = Callable[..., Any]


def test_opportunistic_gangs_use_what_others_were_promised_until_they_want_it(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}, "b": {}})
    driver.run("guest", "b", 4, 4, priority=-1)
    threat = driver.threaten("owner", "a", 4)
    assert threat.victims == ("guest",)
    driver.end("guest")
    assert driver.run("owner", "a", 4).spots == threat.spots


def test_guests_are_spared_while_there_is_other_room(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 3}, "b": {"RACK.NODE": 1}})
    driver.run("guest", "b", 4, priority=-1)
    for number in range(3):
        driver.run(f"owner{number}", "a", 4)
    assert isinstance(driver.ask("last", "b", 4), Preempt)


def test_a_guest_keeps_away_from_nodes_that_are_begun(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 4}})
    begun = driver.run("owner", "a", 1).spots[0].node
    assert driver.run("guest", "a", 1, priority=-1).spots[0].node != begun


def test_higher_priorities_take_room_from_lower_ones_of_the_same_virtual_cluster_only(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    driver.run("low", "a", 4, priority=1)
    driver.run("neighbour", "b", 4, priority=0)
    assert isinstance(driver.ask("equal", "a", 4, priority=1), Wait)
    assert driver.threaten("high", "a", 4, priority=2).victims == ("low",)


def test_no_more_gangs_leave_than_needed(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    for number in range(4):
        driver.run(f"low{number}", "a", 2)
    assert len(driver.threaten("high", "a", 2, priority=5).victims) == 1


def test_lower_priorities_leave_before_higher_ones(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("middle", "a", 4, priority=5)
    driver.run("low", "a", 4, priority=1)
    assert driver.threaten("high", "a", 4, priority=9).victims == ("low",)


def test_the_gang_that_loses_least_work_leaves(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("old", "a", 4, at_ms=1_000)
    driver.run("young", "a", 4, at_ms=50_000)
    decision = driver.core.schedule(GangRequest("high", "a", ((1, 4),), 9), now_ms=60_000)
    assert isinstance(decision, Preempt)
    assert decision.victims == ("young",)
    driver.core.checkpointed("old", 59_000)
    decision = driver.core.schedule(GangRequest("high", "a", ((1, 4),), 9), now_ms=60_000)
    assert isinstance(decision, Preempt)
    assert decision.victims == ("old",)


def test_the_guest_that_loses_least_work_leaves(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("old", "a", 4, at_ms=1_000, priority=-1)
    driver.run("young", "a", 4, at_ms=50_000, priority=-1)
    decision = driver.core.schedule(GangRequest("owner", "a", ((1, 4),)), now_ms=60_000)
    assert isinstance(decision, Preempt)
    assert decision.victims == ("young",)


def test_reserved_devices_wait_for_the_one_they_are_reserved_for(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("left", "a", 4)
    driver.run("right", "a", 4)
    threat = driver.threaten("high", "a", 4, priority=5)
    driver.end(threat.victims[0])
    assert isinstance(driver.ask("other", "a", 4), Wait)
    assert isinstance(driver.ask("guest", "a", 4, priority=-1), Wait)
    assert isinstance(driver.ask("high", "a", 4, priority=5), Bind)


def test_a_cancelled_preemption_leaves_its_victims_as_they_were(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("low", "a", 2, 2)
    before = driver.core.snapshot()
    driver.threaten("high", "a", 4, priority=5)
    assert driver.core.cluster.gangs["low"].state is State.BEING_PREEMPTED
    driver.core.cancel("high")
    driver.look()
    assert driver.core.rebound() == {"low"}
    assert driver.core.snapshot() == before
    assert isinstance(driver.ask("again", "a", 4), Wait)


def test_asking_again_for_a_gang_that_is_being_preempted_answers_where_it_is(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    there = driver.run("low", "a", 2, 2)
    driver.threaten("high", "a", 4, priority=5)
    again = driver.ask("low", "a", 2, 2)
    assert isinstance(again, Bind)
    assert again.spots == there.spots


def test_asking_again_names_the_victims_that_are_left(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("low1", "a", 2)
    driver.run("low2", "a", 2)
    assert driver.threaten("high", "a", 4, priority=5).victims == ("low1", "low2")
    driver.end("low1")
    again = driver.ask("high", "a", 4, priority=5)
    assert isinstance(again, Preempt)
    assert again.victims == ("low2",)


def test_a_still_higher_priority_takes_over_a_reservation(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("low", "a", 4)
    driver.threaten("high", "a", 4, priority=5)
    higher = driver.threaten("higher", "a", 4, priority=6)
    assert (higher.victims, higher.displaced) == (("low",), ("high",))
    assert "high" not in driver.core.cluster.gangs
    driver.end("low")
    driver.run("higher", "a", 4, priority=6)


def test_a_reservation_on_hardware_that_breaks_is_made_elsewhere(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("left", "a", 4)
    driver.run("right", "a", 4)
    threat = driver.threaten("high", "a", 4, priority=5)
    driver.core.set_node(threat.spots[0].node, is_healthy=False)
    other = driver.ask("high", "a", 4, priority=5)
    assert isinstance(other, Preempt)
    assert other.spots[0].node != threat.spots[0].node
    driver.core.commit("high")
    driver.look()
    assert driver.core.cluster.gangs[threat.victims[0]].state is State.ALLOCATED


def test_a_reservation_ignores_which_nodes_others_may_use(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("low", "a", 4)
    threat = driver.threaten("high", "a", 4, priority=5)
    assert driver.ask("high", "a", 4, priority=5) == threat


def test_reservations_survive_a_restart(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("low", "a", 4)
    threat = driver.threaten("high", "a", 4, priority=5)
    later = Hived.from_snapshot(json.loads(json.dumps(driver.core.snapshot())))
    assert later.schedule(GangRequest("high", "a", ((1, 4),), 5)) == threat
    later.release("low")
    assert isinstance(later.schedule(GangRequest("high", "a", ((1, 4),), 5)), Bind)


def test_a_lazy_gang_runs_on_without_its_right_while_there_is_room(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    driver.run("lazy", "a", 4, is_lazily_preemptible=True)
    decision = driver.ask("high", "a", 4, priority=5)
    assert isinstance(decision, Bind)
    assert decision.lazily_preempted == ("lazy",)
    assert driver.core.cluster.gangs["lazy"].lazily_preempted_by is None
    driver.core.roll_back()
    assert driver.core.cluster.gangs["lazy"].parts[0].guarantee is not None
    driver.run("high", "a", 4, priority=5)
    assert driver.core.cluster.gangs["lazy"].lazily_preempted_by == "high"
    assert driver.threaten("neighbour", "b", 4).victims == ("lazy",)


def test_a_lazy_gang_gets_its_right_back_when_there_is_room_again(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    driver.run("lazy", "a", 4, is_lazily_preemptible=True)
    driver.run("high", "a", 4, priority=5)
    driver.end("high")
    assert driver.core.cluster.gangs["lazy"].lazily_preempted_by is None
    assert isinstance(driver.ask("equal", "a", 4), Wait)
    assert isinstance(driver.ask("neighbour", "b", 4), Bind)


def test_a_gang_that_is_not_lazy_must_leave_even_if_there_is_room_elsewhere(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    driver.run("busy", "a", 4)
    assert driver.threaten("high", "a", 4, priority=5).victims == ("busy",)


def test_a_gang_that_shares_nothing_with_the_newcomer_stays(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 3}})
    driver.run("pair", "a", 4, 4)
    driver.run("single", "a", 4)
    assert driver.threaten("high", "a", 4, priority=5).victims == ("single",)


def test_part_of_a_gang_that_ends_frees_its_devices(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("gang", "a", 2, 2)
    driver.core.release("gang", [0])
    driver.look()
    driver.run("next", "a", 2)
    driver.core.release("gang", [1])
    driver.look()
    assert "gang" not in driver.core.cluster.gangs


def test_a_victim_of_two_stays_a_victim_when_one_of_them_is_displaced(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}})
    driver.run("low", "a", 4, 4)
    driver.threaten("high", "a", 4, priority=5)
    driver.run("side", "a", 4, priority=7)
    higher = driver.threaten("higher", "a", 4, priority=6)
    assert (higher.victims, higher.displaced) == (("low",), ("high",))
    assert driver.core.cluster.gangs["low"].threats == {"higher"}
    driver.end("low")
    driver.run("higher", "a", 4, priority=6)


def test_gangs_that_start_together_do_not_run_where_their_victims_still_do() -> None:
    """The second one has a guarantee exchanged for another while the victim of the first is still on its devices."""
    core = core_of("""
physicalCluster:
  cellTypes: {NODE: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}}
  physicalCells: [{cellType: NODE, cellAddress: a}, {cellType: NODE, cellAddress: b}, {cellType: NODE, cellAddress: c},
                  {cellType: NODE, cellAddress: d}]
virtualClusters: {vc: {virtualCells: [{cellType: NODE.GPU, cellNumber: 2}, {cellType: NODE, cellNumber: 2}]}}
""")
    for running in (
        GangRequest("low", "vc", ((2, 1),), 0, topology=Topology("NODE", is_required=True)),
        GangRequest("lazy", "vc", ((1, 2),), 5, is_lazily_preemptible=True),
    ):
        assert isinstance(core.schedule(running), Bind)
        core.commit(running.id)
    high = [GangRequest("first", "vc", ((3, 1),), 10), GangRequest("second", "vc", ((2, 1),), 10)]
    decisions = core.schedule_all(high)
    assert isinstance(decisions, tuple)
    assert [each.victims for each in decisions if isinstance(each, Preempt)] == [("low",), ("low",)]
    core.commit_all(0)
    assert audit(core.cluster) == []


def test_what_a_displaced_gang_leaves_is_given_away_after_all_gangs_that_start_together_are_recorded() -> None:
    core = core_of("""
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}
    RACK: {childCellType: NODE, childCellNumber: 2}
  physicalCells: [{cellType: RACK, cellChildren: [{cellAddress: a}, {cellAddress: b}]},
                  {cellType: RACK, cellChildren: [{cellAddress: c}, {cellAddress: d}]}]
virtualClusters:
  vc: {virtualCells: [{cellType: RACK, cellNumber: 1}, {cellType: RACK.NODE, cellNumber: 1},
                      {cellType: RACK.NODE.GPU, cellNumber: 1}]}
""")
    for request in (
        GangRequest("low", "vc", ((1, 1),), 0, is_lazily_preemptible=True),
        GangRequest("guest", "vc", ((1, 2), (1, 1)), -1),
        GangRequest("reserves", "vc", ((2, 2),), 5),
        GangRequest("lazy", "vc", ((2, 1),), 5, is_lazily_preemptible=True),
    ):
        core.schedule(request)
        core.commit(request.id)
    high = [GangRequest("first", "vc", ((2, 1),), 10), GangRequest("second", "vc", ((1, 1),), 10)]
    assert [each.displaced for each in core.schedule_all(high)] == [("reserves",), ()]  # type: ignore[union-attr]
    core.commit_all(0)
    assert core.cluster.gangs["low"].lazily_preempted_by is None
