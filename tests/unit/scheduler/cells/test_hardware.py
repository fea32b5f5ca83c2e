"""Bad nodes and devices, and going on after a restart or under another configuration: nobody is stopped for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.doomed_cells import doomed_cells, lost_devices
from openpai.scheduler.cells.inspection import virtual_clusters
from openpai.scheduler.cells.model import Bind, Code, GangRequest, NodeHealth, Wait
from openpai.scheduler.config.model import InvalidConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Spot
from tests.costs import assert_linear
from tests.scheduling.history import core_of

Make = Callable[..., Any]


@pytest.mark.parametrize("how", [{"is_healthy": False}, {"is_draining": True}])
def test_a_bad_node_takes_nothing_new_and_keeps_what_it_has(racks: Make, how: dict[str, bool]) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 4}})
    node = driver.run("gang", "a", 2).spots[0].node
    driver.core.set_node(node, **how)
    driver.look()
    assert driver.core.spots_held("gang")[0].node == node
    assert driver.run("next", "a", 2).spots[0].node != node


def test_a_bad_device_leaves_the_rest_of_its_node_usable(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    driver.core.set_node("r0n0", bad_devices=[1])
    driver.run("whole", "a", 4)
    assert driver.run("rest", "b", 3).spots == (Spot("r0n0", (0, 2, 3)),)


def test_a_bad_cell_is_passed_over_even_if_a_larger_one_must_be_cut(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 1}})
    driver.run("first", "b", 4)
    driver.core.set_node("r0n1", is_healthy=False)
    assert driver.run("second", "a", 4).spots[0].node.startswith("r1")


def test_no_cell_is_split_that_was_promised_whole(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 1}, "b": {"RACK": 1}})
    driver.core.set_node("r0n0", is_healthy=False)
    driver.core.set_node("r0n1", is_healthy=False)
    decision = driver.ask("small", "a", 4)
    assert isinstance(decision, Bind)
    driver.core.commit("small")
    driver.look()
    late = driver.ask("rack", "b", 4, 4)
    assert isinstance(late, Wait)
    assert late.code is Code.BAD_HARDWARE


def test_a_guarantee_given_back_leaves_to_others_what_is_bad(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 2}})
    driver.run("lazy", "a", 4, is_lazily_preemptible=True)
    driver.run("other", "a", 4, priority=5)
    driver.run("urgent", "a", 4, priority=100)
    driver.core.set_node("r1n1", is_healthy=False)
    driver.end("other")
    assert driver.core.cluster.gangs["lazy"].lazily_preempted_by is None
    assert lost_devices(driver.core.cluster.shares["b"]["RACK"]) == 4


def test_a_virtual_cluster_sees_what_it_lost_until_it_comes_back(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.core.set_node("r0n1", is_healthy=False)
    driver.look()
    share = driver.core.cluster.shares["a"]["RACK"]
    assert [(guarantee.share, guarantee.level, guarantee.cell) for guarantee in doomed_cells(share.chain)] == [
        (share, 3, 1)
    ]
    assert lost_devices(share) == 4
    shown = [cell["cellHealthiness"] for cell in virtual_clusters(driver.core.cluster)["a"]]
    assert sorted(shown) == ["Bad", "Healthy"]
    assert isinstance(driver.ask("both", "a", 4, 4), Wait)
    driver.core.set_node("r0n1")
    driver.look()
    assert (share.bindings, lost_devices(share), doomed_cells(share.chain)) == ({}, 0, ())
    assert isinstance(driver.ask("both", "a", 4, 4), Bind)


def test_spare_cells_stand_in_for_bad_ones(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}})
    driver.core.set_nodes({"r0n0": NodeHealth(is_healthy=False), "r0n1": NodeHealth(is_healthy=False)})
    driver.look()
    assert lost_devices(driver.core.cluster.shares["a"]["RACK"]) == 0
    driver.run("both", "a", 4, 4)


def test_the_health_of_one_node_costs_no_more_in_a_large_cluster(text_of_racks: Make) -> None:
    def work(nodes: int) -> Callable[[], None]:
        promises = {"a": {"RACK": nodes // 6, "RACK.NODE": nodes // 3}, "b": {"RACK.NODE": nodes // 4}}
        core = core_of(text_of_racks(nodes // 2, promises))

        def change_all() -> None:
            for is_healthy in (False, True):
                for node in core.cluster.node_cells:
                    core.set_node(node, is_healthy=is_healthy)

        return change_all

    assert_linear(work, 240)


def test_everything_bad_and_then_good_again(racks: Make) -> None:
    driver = racks(3, {"a": {"RACK": 1, "RACK.NODE": 2}, "b": {"RACK.NODE.SWITCH": 3}})
    before = driver.core.snapshot()
    for node in driver.core.cluster.node_cells:
        driver.core.set_node(node, is_healthy=False)
        driver.look()
    assert isinstance(driver.ask("none", "b", 1), Wait)
    for node in driver.core.cluster.node_cells:
        driver.core.set_node(node)
        driver.look()
    assert driver.core.snapshot() == before


def test_a_restart_from_records_keeps_every_gang_where_it_is_with_its_right(text_of_racks: Make) -> None:
    core = core_of(text_of_racks(2, {"a": {"RACK": 1, "RACK.NODE": 1}, "b": {"RACK.NODE": 1}}))
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
    core = core_of(text_of_racks(1, {"a": {"RACK": 1}}))
    core.restore(GangRequest("one", "a", ((1, 1),)), [Spot("r0n0", (0,))])
    with pytest.raises(Refused, match="are used by one"):
        core.restore(GangRequest("two", "a", ((1, 1),)), [Spot("r0n0", (0,))])


def test_a_gang_beyond_the_promise_runs_on_without_a_right(text_of_racks: Make) -> None:
    core = core_of(text_of_racks(2, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 3}}))
    whole = (0, 1, 2, 3)
    assert core.restore(GangRequest("one", "a", ((1, 4),)), [Spot("r0n0", whole)])
    assert not core.restore(GangRequest("two", "a", ((1, 4),)), [Spot("r0n1", whole)])
    assert not core.restore(GangRequest("stranger", "gone", ((1, 4),)), [Spot("r1n0", whole)])
    assert not core.restore(GangRequest("three", "a", ((1, 4),)), [Spot("unknown", whole)])
    assert core.spots_held("three") == (Spot("unknown", whole),)
    core.release("three")
    core.release("one")
    assert core.cluster.gangs["two"].lazily_preempted_by is None


def test_a_smaller_promise_stops_no_job(racks: Make, text_of_racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 4}})
    for number in range(4):
        driver.run(f"gang{number}", "a", 4, priority=number)
    before = {gang: driver.core.spots_held(gang) for gang in driver.core.cluster.gangs}
    report = driver.core.reconfigure(read_config(text_of_racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 2}})))
    driver.look()
    assert report.kept == ("gang2", "gang3")
    assert report.demoted == ("gang0", "gang1")
    assert {gang: driver.core.spots_held(gang) for gang in driver.core.cluster.gangs} == before
    assert set(driver.threaten("owner", "b", 4).victims) <= {"gang0", "gang1"}


def test_a_new_shape_of_the_cluster_stops_no_job(racks: Make, text_of_racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    driver.run("pair", "a", 4, 4)
    driver.run("small", "a", 2)
    report = driver.core.reconfigure(read_config(text_of_racks(1, {"a": {"RACK": 1}})))
    driver.look()
    assert report.kept == ("pair",)
    assert report.demoted == ("small",)
    driver.end("small")


def test_a_faulty_configuration_changes_nothing(racks: Make, text_of_racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    before = driver.core.snapshot()
    with pytest.raises(InvalidConfig):
        driver.core.reconfigure(read_config(text_of_racks(1, {"a": {"RACK": 2}})))
    assert driver.core.snapshot() == before


def test_a_gang_that_waits_for_others_waits_again_under_a_new_configuration(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("low", "a", 4)
    driver.threaten("high", "a", 4, priority=5)
    report = driver.core.reconfigure(driver.core.cluster.config)
    driver.look()
    assert (report.kept, report.waiting) == (("low",), ("high",))


def test_a_snapshot_gives_the_same_answers(racks: Make) -> None:
    driver = racks(3, {"a": {"RACK": 1, "RACK.NODE": 1}, "b": {"RACK.NODE.SWITCH": 3}})
    driver.run("one", "a", 4, 4)
    driver.run("two", "b", 2)
    driver.run("guest", "b", 3, priority=-1)
    driver.core.set_node("r2n1", bad_devices=[2])
    later = Hived.from_snapshot(json.loads(json.dumps(driver.core.snapshot())))
    assert later.snapshot() == driver.core.snapshot()
    for request in (
        GangRequest("x", "a", ((1, 4),)),
        GangRequest("y", "b", ((2, 2),)),
        GangRequest("z", "a", ((3, 1),), -1),
    ):
        assert later.schedule(request) == driver.core.schedule(request)
