"""Bad nodes and devices, and going on after a restart or under another configuration: nobody is stopped for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.dooming import doomed_cells, lost_devices
from openpai.scheduler.cells.inspection import virtual_cells
from openpai.scheduler.cells.model import Bind, Code, GangRequest, NodeHealth, Wait
from openpai.scheduler.config.model import InvalidConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Spot

Make = Callable[..., Any]


@pytest.mark.parametrize("how", [{"is_healthy": False}, {"is_draining": True}])
def test_a_bad_node_takes_nothing_new_and_keeps_what_it_has(racks: Make, how: dict[str, bool]) -> None:
    desk = racks(2, {"a": {"RACK.NODE": 4}})
    node = desk.run("gang", "a", 2).spots[0].node
    desk.core.set_node(node, **how)
    desk.look()
    assert desk.core.spots_held("gang")[0].node == node
    assert desk.run("next", "a", 2).spots[0].node != node


def test_a_bad_device_leaves_the_rest_of_its_node_usable(racks: Make) -> None:
    desk = racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    desk.core.set_node("r0n0", bad_devices=[1])
    desk.run("whole", "a", 4)
    assert desk.run("rest", "b", 3).spots == (Spot("r0n0", (0, 2, 3)),)


def test_a_bad_cell_is_passed_over_even_if_a_larger_one_must_be_cut(racks: Make) -> None:
    desk = racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 1}})
    desk.run("first", "b", 4)
    desk.core.set_node("r0n1", is_healthy=False)
    assert desk.run("second", "a", 4).spots[0].node.startswith("r1")


def test_no_cell_is_cut_that_somebody_was_promised_whole(racks: Make) -> None:
    desk = racks(2, {"a": {"RACK.NODE": 1}, "b": {"RACK": 1}})
    desk.core.set_node("r0n0", is_healthy=False)
    desk.core.set_node("r0n1", is_healthy=False)
    decision = desk.ask("small", "a", 4)
    assert isinstance(decision, Bind)
    desk.core.commit("small")
    desk.look()
    late = desk.ask("rack", "b", 4, 4)
    assert isinstance(late, Wait)
    assert late.code is Code.BAD_HARDWARE


def test_a_guarantee_given_back_leaves_to_others_what_is_bad(racks: Make) -> None:
    desk = racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 2}})
    desk.run("lazy", "a", 4, is_lazily_preemptible=True)
    desk.run("other", "a", 4, priority=5)
    desk.run("urgent", "a", 4, priority=100)
    desk.core.set_node("r1n1", is_healthy=False)
    desk.end("other")
    assert desk.core.cluster.gangs["lazy"].lazily_preempted_by is None
    assert lost_devices(desk.core.cluster.shares["b"]["RACK"]) == 4


def test_a_virtual_cluster_sees_what_it_lost_until_it_comes_back(racks: Make) -> None:
    desk = racks(1, {"a": {"RACK.NODE": 2}})
    desk.core.set_node("r0n1", is_healthy=False)
    desk.look()
    share = desk.core.cluster.shares["a"]["RACK"]
    assert [(guarantee.share, guarantee.level, guarantee.cell) for guarantee in doomed_cells(share.chain)] == [
        (share, 3, 1)
    ]
    assert lost_devices(share) == 4
    shown = [cell["cellHealthiness"] for cell in virtual_cells(desk.core.cluster, "a")]
    assert sorted(shown) == ["Bad", "Healthy"]
    assert isinstance(desk.ask("both", "a", 4, 4), Wait)
    desk.core.set_node("r0n1")
    desk.look()
    assert (share.bindings, lost_devices(share), doomed_cells(share.chain)) == ({}, 0, ())
    assert isinstance(desk.ask("both", "a", 4, 4), Bind)


def test_spare_cells_stand_in_for_bad_ones(racks: Make) -> None:
    desk = racks(2, {"a": {"RACK.NODE": 2}})
    desk.core.set_nodes({"r0n0": NodeHealth(is_healthy=False), "r0n1": NodeHealth(is_healthy=False)})
    desk.look()
    assert lost_devices(desk.core.cluster.shares["a"]["RACK"]) == 0
    desk.run("both", "a", 4, 4)


def test_health_told_one_node_at_a_time_takes_no_longer_in_a_large_cluster(text_of_racks: Make) -> None:
    core = Hived.from_text(text_of_racks(3000, {"a": {"RACK": 1000, "RACK.NODE": 2000}, "b": {"RACK.NODE": 1500}}))
    took_s = []
    for is_healthy in (False, True):
        for node in core.cluster.node_cells:
            began_s = process_time()
            core.set_node(node, is_healthy=is_healthy)
            took_s.append(process_time() - began_s)
    assert sum(took_s) / len(took_s) < 0.001
    assert sorted(took_s)[len(took_s) * 99 // 100] < 0.005


def test_everything_bad_and_then_good_again(racks: Make) -> None:
    desk = racks(3, {"a": {"RACK": 1, "RACK.NODE": 2}, "b": {"RACK.NODE.SWITCH": 3}})
    before = desk.core.snapshot()
    for node in desk.core.cluster.node_cells:
        desk.core.set_node(node, is_healthy=False)
        desk.look()
    assert isinstance(desk.ask("none", "b", 1), Wait)
    for node in desk.core.cluster.node_cells:
        desk.core.set_node(node)
        desk.look()
    assert desk.core.snapshot() == before


def test_a_restart_from_records_keeps_every_gang_where_it_is_with_its_right(text_of_racks: Make) -> None:
    core = Hived.from_text(text_of_racks(2, {"a": {"RACK": 1, "RACK.NODE": 1}, "b": {"RACK.NODE": 1}}))
    assert core.restore(GangRequest("one", "a", ((1, 4),)), [Spot("r0n0", (0, 1, 2, 3))])
    assert core.restore(GangRequest("two", "a", ((1, 4),)), [Spot("r0n1", (0, 1, 2, 3))])
    assert core.restore(GangRequest("guest", "b", ((2, 1),), -1), [Spot("r1n0", (0,)), None])
    assert core.restore(GangRequest("three", "b", ((1, 4),)), [Spot("r1n1", (0, 1, 2, 3))])
    assert {gang: record.lazily_preempted_by for gang, record in core.cluster.gangs.items()} == dict.fromkeys(
        ("one", "two", "guest", "three")
    )
    decision = core.schedule(GangRequest("four", "a", ((1, 4),)))
    assert not isinstance(decision, Wait)


def test_restoring_a_gang_onto_a_device_in_use_is_refused(text_of_racks: Make) -> None:
    core = Hived.from_text(text_of_racks(1, {"a": {"RACK": 1}}))
    core.restore(GangRequest("one", "a", ((1, 1),)), [Spot("r0n0", (0,))])
    with pytest.raises(Refused, match="are used by one"):
        core.restore(GangRequest("two", "a", ((1, 1),)), [Spot("r0n0", (0,))])


def test_a_gang_beyond_the_promise_runs_on_without_a_right(text_of_racks: Make) -> None:
    core = Hived.from_text(text_of_racks(2, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 3}}))
    whole = (0, 1, 2, 3)
    assert core.restore(GangRequest("one", "a", ((1, 4),)), [Spot("r0n0", whole)])
    assert not core.restore(GangRequest("two", "a", ((1, 4),)), [Spot("r0n1", whole)])
    assert not core.restore(GangRequest("stranger", "gone", ((1, 4),)), [Spot("r1n0", whole)])
    assert not core.restore(GangRequest("three", "a", ((1, 4),)), [Spot("unknown", whole)])
    assert core.spots_held("three") == (Spot("unknown", whole),)
    core.release("three")
    core.release("one")
    assert core.cluster.gangs["two"].lazily_preempted_by is None


def test_a_smaller_promise_stops_nobody(racks: Make, text_of_racks: Make) -> None:
    desk = racks(2, {"a": {"RACK.NODE": 4}})
    for number in range(4):
        desk.run(f"gang{number}", "a", 4, priority=number)
    before = {gang: desk.core.spots_held(gang) for gang in desk.core.cluster.gangs}
    report = desk.core.reconfigure(read_config(text_of_racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 2}})))
    desk.look()
    assert report.kept == ("gang2", "gang3")
    assert report.demoted == ("gang0", "gang1")
    assert {gang: desk.core.spots_held(gang) for gang in desk.core.cluster.gangs} == before
    assert set(desk.threaten("owner", "b", 4).victims) <= {"gang0", "gang1"}


def test_a_new_shape_of_the_cluster_stops_nobody(racks: Make, text_of_racks: Make) -> None:
    desk = racks(2, {"a": {"RACK": 2}})
    desk.run("pair", "a", 4, 4)
    desk.run("small", "a", 2)
    report = desk.core.reconfigure(read_config(text_of_racks(1, {"a": {"RACK": 1}})))
    desk.look()
    assert report.kept == ("pair",)
    assert report.demoted == ("small",)
    desk.end("small")


def test_a_faulty_configuration_changes_nothing(racks: Make, text_of_racks: Make) -> None:
    desk = racks(1, {"a": {"RACK": 1}})
    before = desk.core.snapshot()
    with pytest.raises(InvalidConfig):
        desk.core.reconfigure(read_config(text_of_racks(1, {"a": {"RACK": 2}})))
    assert desk.core.snapshot() == before


def test_a_gang_that_waits_for_others_waits_again_under_a_new_configuration(racks: Make) -> None:
    desk = racks(1, {"a": {"RACK.NODE": 1}})
    desk.run("low", "a", 4)
    desk.threaten("high", "a", 4, priority=5)
    report = desk.core.reconfigure(desk.core.cluster.config)
    desk.look()
    assert (report.kept, report.waiting) == (("low",), ("high",))


def test_a_snapshot_gives_the_same_answers(racks: Make) -> None:
    desk = racks(3, {"a": {"RACK": 1, "RACK.NODE": 1}, "b": {"RACK.NODE.SWITCH": 3}})
    desk.run("one", "a", 4, 4)
    desk.run("two", "b", 2)
    desk.run("guest", "b", 3, priority=-1)
    desk.core.set_node("r2n1", bad_devices=[2])
    later = Hived.from_snapshot(json.loads(json.dumps(desk.core.snapshot())))
    assert later.snapshot() == desk.core.snapshot()
    for request in (
        GangRequest("x", "a", ((1, 4),)),
        GangRequest("y", "b", ((2, 2),)),
        GangRequest("z", "a", ((3, 1),), -1),
    ):
        assert later.schedule(request) == desk.core.schedule(request)
