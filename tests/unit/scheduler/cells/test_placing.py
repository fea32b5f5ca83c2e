"""Where gangs go: close together, all or none, and never where large cells would be broken up for nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.model import Bind, Code, GangRequest, Wait
from openpai.scheduler.model import Spot, Topology
from tests.scheduling.history import core_of

Make = Callable[..., Any]


def test_two_devices_come_from_one_switch(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("single", "a", 1)
    assert driver.run("pair", "a", 2).spots[0].devices == (2, 3)


def test_a_single_goes_where_a_switch_is_begun_already(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("first", "a", 1)
    assert driver.run("second", "a", 1).spots == (Spot("r0n0", (1,)),)


def test_the_fullest_node_that_fits_is_filled_first(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    driver.run("three", "a", 3)
    driver.run("two", "a", 2)
    assert driver.run("one", "a", 1).spots[0].node == driver.core.spots_held("three")[0].node
    assert driver.run("two more", "a", 2).spots[0].node == driver.core.spots_held("two")[0].node


def test_a_node_is_opened_before_a_rack(racks: Make) -> None:
    driver = racks(3, {"a": {"RACK": 1, "RACK.NODE": 1}})
    driver.run("small", "a", 4)
    share = driver.core.cluster.shares["a"]["RACK"]
    assert [level for level, _ in share.bindings] == [3]


def test_parts_of_nodes_are_used_before_whole_nodes(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 1, "RACK.NODE.SWITCH": 1}})
    driver.run("small", "a", 2)
    share = driver.core.cluster.shares["a"]["RACK"]
    assert [level for level, _ in share.bindings] == [2]


def test_a_small_gang_stays_on_one_node(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    driver.run("filler", "a", 3)
    assert len({spot.node for spot in driver.run("gang", "a", 1, 1, 2).spots}) == 1


def test_a_gang_of_nodes_stays_in_one_rack(racks: Make) -> None:
    driver = racks(3, {"a": {"RACK": 2, "RACK.NODE": 2}})
    driver.run("one", "a", 4)
    spots = driver.run("gang", "a", 4, 4).spots
    assert len({spot.node[:2] for spot in spots}) == 1


def test_promised_nodes_that_are_opened_together_share_a_rack(racks: Make) -> None:
    driver = racks(3, {"a": {"RACK.NODE": 3}, "b": {"RACK.NODE": 1}})
    driver.run("other", "b", 4)
    spots = driver.run("gang", "a", 4, 4).spots
    assert len({spot.node[:2] for spot in spots}) == 1


def test_spots_come_in_the_order_of_the_members(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    assert [len(spot.devices) for spot in driver.run("gang", "a", 1, 4, 2).spots] == [1, 4, 2]


def test_a_gang_is_placed_as_a_whole_or_not_at_all(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("filler", "a", 1)
    before = driver.core.snapshot()
    wait = driver.ask("gang", "a", 4, 4)
    assert isinstance(wait, Wait)
    assert driver.core.snapshot() == before


def test_an_uncommitted_decision_leaves_no_trace(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 1}})
    before = driver.core.snapshot()
    first = driver.ask("gang", "a", 4, 2)
    assert isinstance(first, Bind)
    assert driver.core.snapshot() == before
    assert driver.ask("gang", "a", 4, 2) == first
    with pytest.raises(Refused, match="no decision on"):
        driver.core.commit("other")


def test_members_of_odd_sizes_are_fitted_together_if_they_fit_at_all(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    driver.run("left", "a", 1)
    driver.run("mid", "a", 4)
    assert isinstance(driver.ask("gang", "a", 3, 3, 2, 2, 1), Bind)


def test_a_pinned_cell_serves_only_gangs_that_name_it(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}}, pins={"r0n0": "a"})
    assert driver.run("plain", "a", 4).spots[0].node == "r0n1"
    assert isinstance(driver.ask("more", "a", 4), Wait)
    assert driver.run("pinned", "a", 4, pinned_cell="pin-r0n0").spots[0].node == "r0n0"


def test_the_type_of_device_decides_the_chain(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1, "NODE": 1}}, loose=1)
    assert driver.run("small", "a", 4).chain == "NODE"
    assert driver.run("large", "a", 4, 4).chain == "RACK"
    with pytest.raises(Refused, match="no SKU type 'V100'"):
        driver.ask("wrong", "a", 1, leaf_type="V100")


@pytest.mark.parametrize("is_required", [True, False])
def test_a_request_to_stay_in_one_rack(racks: Make, is_required: bool) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    driver.run("left", "a", 2, nodes=frozenset({"r0n1"}))
    driver.run("right", "a", 2, nodes=frozenset({"r1n0"}))
    decision = driver.ask("gang", "a", 4, 4, topology=Topology("RACK", is_required))
    if is_required:
        assert isinstance(decision, Wait)
        assert decision.code is Code.OUTSIDE_TOPOLOGY
    else:
        assert isinstance(decision, Bind)
    driver.end("left")
    kept = driver.run("gang", "a", 4, 4, topology=Topology("RACK", is_required))
    assert {spot.node for spot in kept.spots} == {"r0n0", "r0n1"}


def test_only_the_nodes_it_may_use_are_used(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}})
    assert driver.run("gang", "a", 4, nodes=frozenset({"r1n1"})).spots[0].node == "r1n1"
    wait = driver.ask("more", "a", 4, nodes=frozenset({"r1n1"}))
    assert isinstance(wait, Wait)
    assert wait.code is Code.OUTSIDE_TOPOLOGY


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GangRequest("g", "nobody", ((1, 1),)), "there is no virtual cluster 'nobody'; there are a"),
        (GangRequest("g", "a", ((1, 1),), 1001), "priority 1001 is not between -1 and 1000"),
        (GangRequest("g", "a", ((1, 1),), -2), "priority -2"),
        (GangRequest("g", "a", ()), "at least one task"),
        (GangRequest("g", "a", ((1, 0),)), "at least one CPU or GPU"),
        (GangRequest("g", "a", ((1, 1),), -1, None, "pin-r0n0"), "opportunistic job cannot ask for pinned"),
        (GangRequest("g", "a", ((1, 1),), 0, None, "pin-r0n1"), "has no pinned cell 'pin-r0n1'; it has pin-r0n0"),
        (GangRequest("g", "a", ((1, 1),), topology=Topology("ROW")), "no cell type 'ROW'"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_reason(racks: Make, request_: GangRequest, message: str) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}}, pins={"r0n0": "a"})
    with pytest.raises(Refused) as caught:
        driver.core.schedule(request_)
    assert message in caught.value.message
    assert driver.core.refusal(request_) == caught.value.message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GangRequest("g", "a", ((1, 5),)), "up to 5 on one node"),
        (GangRequest("g", "a", ((2, 4),)), "has at most 4"),
        (GangRequest("g", "a", ((9, 1),), -1), "no part of the cluster is as large"),
        (GangRequest("g", "b", ((1, 1),)), "promised nothing"),
        (GangRequest("g", "a", ((2, 4),)), "on one node, beside the pinned cells pin-r0n0"),
        (GangRequest("g", "a", ((3, 2),), topology=Topology("NODE", True)), "has at most 4"),
        (GangRequest("g", "a", ((2, 4),), -1, topology=Topology("NODE", True)), "devices inside one NODE, which is"),
    ],
)
def test_what_is_larger_than_anything_there_is_waits_with_the_reason(
    racks: Make, request_: GangRequest, message: str
) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}, "b": {}}, pins={"r0n0": "a"})
    wait = driver.core.schedule(request_)
    assert isinstance(wait, Wait)
    assert wait.code is Code.TOO_LARGE
    assert message in wait.message
    assert driver.core.refusal(request_) == wait.message


def test_reasons_name_the_numbers_and_the_cure(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 2}})
    driver.run("one", "a", 1)
    fragmented = driver.ask("pair", "a", 4, 3)
    assert isinstance(fragmented, Bind)
    driver.core.commit("pair")
    used = driver.ask("more", "a", 1)
    assert isinstance(used, Wait)
    assert used.code is Code.QUOTA_USED
    assert used.message == "virtual cluster a uses 8 of its 8 GPU devices; this needs 1"
    driver.end("pair")
    driver.end("one")
    driver.run("one", "a", 1, nodes=frozenset({"r0n0"}))
    driver.run("two", "a", 1, nodes=frozenset({"r1n0"}))
    spread = driver.ask("whole", "a", 4)
    assert isinstance(spread, Wait)
    assert spread.code is Code.FRAGMENTED
    assert "spread over nodes" in spread.message
    driver.core.set_node("r0n0", is_healthy=False)
    driver.core.set_node("r0n1", is_healthy=False)
    driver.core.set_node("r1n0", is_healthy=False)
    bad = driver.ask("other", "b", 4, 4)
    assert isinstance(bad, Wait)
    assert bad.code is Code.BAD_HARDWARE
    leftover = driver.ask("crumbs", "b", 2, 2, 2, priority=-1)
    assert isinstance(leftover, Wait)
    assert leftover.code is Code.NO_IDLE_DEVICES


def test_the_reason_is_about_cells_that_could_hold_the_gang(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1, "NODE": 1}}, loose=1)
    driver.run("whole", "a", 4, 4)
    wait = driver.ask("next", "a", 4, 4)
    assert isinstance(wait, Wait)
    assert wait.message == "virtual cluster a uses 8 of its 8 GPU devices; this needs 8"
    driver.core.set_node("loose0", is_healthy=False)
    wait = driver.ask("other", "a", 4, 4)
    assert isinstance(wait, Wait)
    assert wait.code is Code.QUOTA_USED


def test_a_request_for_a_cell_without_such_devices_is_refused_with_the_reason() -> None:
    core = core_of("""
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
    BOX: {childCellType: CPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells: [{cellType: NODE, cellAddress: n}, {cellType: BOX, cellAddress: c}]
virtualClusters:
  a: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
""")
    for priority in (0, -1):
        request = GangRequest("g", "a", ((1, 2),), priority, leaf_type="GPU", topology=Topology("BOX", True))
        assert core.refusal(request) == "no GPU is inside a BOX"


def test_a_failed_attempt_is_remembered_until_something_is_freed(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("one", "a", 4)
    assert isinstance(driver.ask("two", "a", 4), Wait)
    assert isinstance(driver.ask("two", "a", 4), Wait)
    driver.end("one")
    assert isinstance(driver.ask("two", "a", 4), Bind)
