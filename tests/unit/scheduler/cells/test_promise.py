"""What broke once: promises that were not kept, rights that were lost, and facts that corrupted the books."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from openpai.scheduler.cells import guarantees
from openpai.scheduler.cells.inspection import affinity_groups, cluster_status
from openpai.scheduler.cells.model import Bind, GangRequest, NodeHealth, Preempt, State, Wait
from openpai.scheduler.cells.placing import Placement
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Spot, Topology
from tests.costs import lines_run
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

Make = Callable[..., Any]

IN_A_RACK = Topology("RACK", is_required=True)
WHOLE = (0, 1, 2, 3)


def test_a_gang_that_must_lie_together_starts_when_another_virtual_cluster_leaves_a_rack(racks: Make) -> None:
    driver = racks(2, {"vision": {"RACK.NODE": 2}, "speech": {"RACK.NODE": 2}})
    driver.run("one", "speech", 4, nodes=frozenset({"r0n0"}))
    driver.run("two", "speech", 4, nodes=frozenset({"r1n0"}))
    for _ in range(2):
        assert isinstance(driver.ask("pair", "vision", 4, 4, topology=IN_A_RACK), Wait)
    driver.end("one")
    assert isinstance(driver.ask("pair", "vision", 4, 4, topology=IN_A_RACK), Bind)


def test_a_gang_beside_bad_hardware_starts_when_another_virtual_cluster_leaves_a_sound_node(racks: Make) -> None:
    driver = racks(1, {"vision": {"RACK.NODE": 1}, "speech": {"RACK.NODE": 1}})
    driver.run("other", "speech", 4, nodes=frozenset({"r0n1"}))
    driver.core.set_node("r0n0", is_healthy=False)
    for _ in range(2):
        assert isinstance(driver.ask("waits", "vision", 4), Wait)
    driver.end("other")
    assert isinstance(driver.ask("waits", "vision", 4), Bind)


@pytest.mark.parametrize("promise", [IN_A_RACK, Topology("RACK"), None])
def test_a_promised_rack_is_opened_for_a_gang_that_fills_it(racks: Make, promise: Topology | None) -> None:
    driver = racks(2, {"vision": {"RACK": 1, "RACK.NODE": 1}})
    spots = driver.run("pair", "vision", 4, 4, topology=promise).spots
    assert {spot.node[:2] for spot in spots} == {"r0"}
    driver.run("single", "vision", 4)


@pytest.mark.parametrize("without", [None, "_is_quick", "_solved"])
def test_opportunistic_gangs_beside_bad_hardware_block_no_guarantee(
    racks: Make, monkeypatch: pytest.MonkeyPatch, without: str | None
) -> None:
    """Two things keep the promise, the order in which cells are opened and the exact search: each does so alone."""
    driver = racks(3, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1, "RACK": 1}})
    driver.core.set_node("r0n0", is_healthy=False)
    for node in ("r1n0", "r1n1"):
        driver.run(f"guest-{node}", "a", 4, priority=-1, nodes=frozenset({node}))
    if without is not None:
        monkeypatch.setattr(Placement, without, lambda *_, **__: False)
    decision = driver.ask("three", "b", 4, 4, 4)
    assert isinstance(decision, Bind), decision
    assert {spot.node for spot in decision.spots} == {"r0n1", "r2n0", "r2n1"}


@pytest.mark.parametrize("without", [None, "_is_quick", "_solved"])
def test_opportunistic_gangs_on_every_sound_node_beside_bad_hardware_must_leave(
    racks: Make, monkeypatch: pytest.MonkeyPatch, without: str | None
) -> None:
    driver = racks(3, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1, "RACK": 1}})
    driver.core.set_node("r0n0", is_healthy=False)
    for node in ("r0n1", "r1n0", "r1n1", "r2n0", "r2n1"):
        driver.run(f"guest-{node}", "a", 4, priority=-1, nodes=frozenset({node}))
    if without is not None:
        monkeypatch.setattr(Placement, without, lambda *_, **__: False)
    decision = driver.ask("three", "b", 4, 4, 4)
    assert isinstance(decision, Preempt), decision
    assert len(decision.victims) == 3


def test_named_nodes_beside_bad_hardware_are_taken_from_opportunistic_gangs(racks: Make) -> None:
    driver = racks(3, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1, "RACK": 1}})
    driver.core.set_node("r0n0", is_healthy=False)
    for node in ("r1n0", "r1n1"):
        driver.run(f"guest-{node}", "a", 4, priority=-1, nodes=frozenset({node}))
    decision = driver.ask("three", "b", 4, 4, 4, nodes=frozenset({"r0n1", "r1n0", "r1n1"}))
    assert isinstance(decision, Preempt)
    assert decision.victims == ("guest-r1n0", "guest-r1n1")


@pytest.mark.parametrize("is_built_anew", [False, True])
def test_the_same_promises_keep_every_right_beside_bad_hardware(
    racks: Make, monkeypatch: pytest.MonkeyPatch, is_built_anew: bool
) -> None:
    if is_built_anew:
        monkeypatch.setattr(HivedConfig, "has_cells_of", lambda *_: False)
    driver = racks(2, {"a": {"RACK.NODE": 3}, "b": {"RACK.NODE": 1}})
    driver.run("running", "a", 4, nodes=frozenset({"r0n0"}))
    driver.core.set_nodes({"r0n0": NodeHealth(is_draining=True), "r0n1": NodeHealth(False), "r1n0": NodeHealth(False)})
    report = driver.core.reconfigure(driver.core.cluster.config)
    driver.look()
    assert (report.kept, report.demoted) == (("running",), ())


def test_of_equal_priority_the_gang_that_runs_longer_goes_first(racks: Make, text_of_racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 3}})
    for at_ms, name in enumerate(("oldest", "older", "newer"), 1):
        driver.run(name, "a", 4, at_ms=at_ms)
    report = driver.core.reconfigure(read_config(text_of_racks(2, {"a": {"RACK.NODE": 1}})))
    driver.look()
    assert (report.kept, report.demoted) == (("oldest",), ("newer", "older"))
    driver.end("oldest")
    gangs = driver.core.cluster.gangs
    assert gangs["older"].lazily_preempted_by is None
    assert gangs["newer"].lazily_preempted_by is not None


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_priority_decides_which_gang_keeps_its_guarantee_in_any_order_of_reports(
    text_of_racks: Make, order: tuple[str, ...]
) -> None:
    core = core_of(text_of_racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}}))
    gangs = {"low": (1, "r0n0"), "high": (100, "r0n1")}
    for name in order:
        priority, node = gangs[name]
        core.restore(GangRequest(name, "a", ((1, 4),), priority), [Spot(node, WHOLE)])
    assert core.cluster.gangs["high"].lazily_preempted_by is None
    assert core.cluster.gangs["low"].lazily_preempted_by is not None
    decision = core.schedule(GangRequest("owner", "b", ((1, 4),)))
    assert isinstance(decision, Preempt)
    assert decision.victims == ("low",)


def test_a_restart_from_records_gives_every_gang_the_promise_it_had(racks: Make, text_of_racks: Make) -> None:
    promises = {"a": {"RACK.NODE": 1, "RACK.NODE.SWITCH": 1}}
    driver = racks(2, promises)
    driver.run("small", "a", 1)
    driver.run("whole", "a", 4)
    again = core_of(text_of_racks(2, promises))
    for name in ("small", "whole"):
        record = driver.core.cluster.gangs[name]
        assert again.restore(record.request, record.spots, cell_types=driver.core.binding(name))
    bare = core_of(text_of_racks(2, promises))
    for name in ("small", "whole"):
        record = driver.core.cluster.gangs[name]
        assert bare.restore(record.request, record.spots)


def test_what_was_recorded_of_a_promise_is_enough_to_find_it_again(
    racks: Make, text_of_racks: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without serving gangs from other cells, which a virtual cluster with many gangs does not try."""
    monkeypatch.setattr(guarantees, "_serve_from_other_cells", lambda *_: False)
    promises = {"a": {"RACK.NODE": 1, "RACK.NODE.SWITCH": 1}}
    driver = racks(2, promises)
    driver.run("whole", "a", 4)
    driver.run("small", "a", 1)
    driver.core.release("whole")
    driver.run("one", "a", 1, nodes=frozenset({"r0n0", "r1n0", "r1n1"}))
    again = core_of(text_of_racks(2, promises))
    for name in ("one", "small"):
        record = driver.core.cluster.gangs[name]
        assert again.restore(record.request, record.spots, cell_types=driver.core.binding(name))
        assert again.binding(name) == driver.core.binding(name)


def test_a_gang_without_a_guarantee_before_a_restart_takes_none_from_others(text_of_racks: Make) -> None:
    core = core_of(text_of_racks(1, {"a": {"RACK.NODE": 1}}))
    assert not core.restore(GangRequest("without", "a", ((1, 4),)), [Spot("r0n0", WHOLE)], cell_types=[""])
    assert core.restore(GangRequest("with", "a", ((1, 4),)), [Spot("r0n1", WHOLE)], cell_types=["NODE"])
    core.restored()
    core.release("with")
    assert core.cluster.gangs["without"].lazily_preempted_by is None


def test_rights_come_back_by_priority_when_any_gang_makes_room(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 1, "RACK.NODE": 1}, "b": {"RACK.NODE": 1}})
    driver.run("aa", "a", 4, priority=1, is_lazily_preemptible=True, nodes=frozenset({"r0n0"}))
    driver.run("zz", "a", 4, priority=2, is_lazily_preemptible=True, nodes=frozenset({"r0n1"}))
    driver.run("more", "a", 4, priority=0, nodes=frozenset({"r1n0"}))
    top = driver.ask("top", "a", 4, 4, 4, priority=9)
    assert not isinstance(top, Wait)
    driver.core.commit("top")
    driver.look()
    for victim in getattr(top, "victims", ()):
        driver.end(victim)
    driver.end("top")
    gangs = driver.core.cluster.gangs
    assert {name: gangs[name].lazily_preempted_by for name in ("aa", "zz") if name in gangs} == dict.fromkeys(
        name for name in ("aa", "zz") if name in gangs
    )


@pytest.mark.parametrize("how", ["left", "reconfigured"])
def test_a_guarantee_lost_to_a_smaller_promise_comes_back_by_priority(
    racks: Make, text_of_racks: Make, how: str
) -> None:
    two, one = (text_of_racks(1, {"a": {"RACK.NODE": number}}) for number in (2, 1))
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("low", "a", 4, priority=1)
    driver.run("high", "a", 4, priority=2)
    assert driver.core.reconfigure(read_config(one)).demoted == ("low",)
    assert driver.core.change(GangRequest("high", "a", ((1, 4),), 0)) is False
    gangs = driver.core.cluster.gangs
    assert gangs["low"].lazily_preempted_by is None
    if how == "left":
        driver.end("low")
    else:
        driver.core.reconfigure(read_config(two))
    driver.look()
    assert driver.core.cluster.gangs["high"].lazily_preempted_by is None


def test_a_guarantee_comes_back_when_another_virtual_cluster_leaves(text_of_racks: Make) -> None:
    core = core_of(text_of_racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}}))
    core.restore(GangRequest("other", "b", ((1, 2),)), [Spot("r0n0", (0, 1))])
    core.restore(GangRequest("same", "b", ((1, 2),), -1), [Spot("r0n1", (0, 1))])
    assert not core.restore(GangRequest("stray", "a", ((1, 2),)), [Spot("r0n0", (2, 3))])
    core.release("other")
    assert core.cluster.gangs["stray"].lazily_preempted_by is None


TWO_CHAINS = """
physicalCluster:
  cellTypes:
    GPU-NODE: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}
    CPU-NODE: {childCellType: CPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: GPU-NODE, cellAddress: m0}
  - {cellType: GPU-NODE, cellAddress: m1}
  - {cellType: CPU-NODE, cellAddress: m0}
virtualClusters:
  a:
    virtualCells: [{cellType: GPU-NODE, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]
"""


def test_a_machine_in_two_chains_may_leave_one(racks: Make) -> None:
    core = core_of(TWO_CHAINS)
    for name, kind in (("gpu", "K80"), ("cpu", "CPU")):
        assert isinstance(core.schedule(GangRequest(name, "a", ((1, 2),), leaf_type=kind)), Bind)
        core.commit(name)
    without = TWO_CHAINS.replace("  - {cellType: GPU-NODE, cellAddress: m0}\n", "")
    report = core.reconfigure(read_config(without))
    assert audit(core.cluster) == []
    assert (report.kept, report.demoted) == (("cpu",), ("gpu",))
    assert core.cluster.gangs["gpu"].parts == [None]
    assert core.spots_held("gpu") == (Spot("m0", (0, 1)),)
    core.release("gpu")
    core.release("cpu")
    assert audit(core.cluster) == []


def test_a_device_of_another_chain_with_the_same_number_is_not_taken_for_one_that_left() -> None:
    core = core_of(TWO_CHAINS)
    core.schedule(GangRequest("gpu", "a", ((1, 2),), leaf_type="K80"))
    core.commit("gpu")
    core.reconfigure(read_config(TWO_CHAINS.replace("  - {cellType: GPU-NODE, cellAddress: m0}\n", "")))
    assert core.cluster.gangs["gpu"].parts == [None]


def test_a_gang_that_is_given_a_higher_priority_takes_the_guarantee_of_a_lower_one(
    racks: Make, text_of_racks: Make
) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("low", "a", 4, priority=1)
    driver.run("high", "a", 4, priority=2)
    driver.core.reconfigure(read_config(text_of_racks(1, {"a": {"RACK.NODE": 1}})))
    assert driver.core.change(GangRequest("low", "a", ((1, 4),), 5))
    assert driver.core.cluster.gangs["high"].lazily_preempted_by is not None


def test_a_new_priority_leaves_a_gang_on_the_device_it_has() -> None:
    core = core_of(TWO_CHAINS)
    for name, leaf_type in (("gpu", "K80"), ("any", None)):
        core.schedule(GangRequest(name, "a", ((1, 2),), leaf_type=leaf_type, nodes=frozenset({"m0"})))
        core.commit(name)
    assert core.change(GangRequest("any", "a", ((1, 2),), 5))
    part = core.cluster.gangs["any"].parts[0]
    assert part is not None
    assert part.node_cell.chain.spec.leaf_type == "CPU"
    assert audit(core.cluster) == []


def test_a_type_under_another_name_is_the_same_device(racks: Make) -> None:
    core = core_of(TWO_CHAINS)
    core.schedule(GangRequest("gpu", "a", ((1, 2),), leaf_type="K80"))
    core.commit("gpu")
    report = core.reconfigure(read_config(TWO_CHAINS.replace("K80", "M60")))
    assert (report.kept, report.demoted) == (("gpu",), ())
    assert core.cluster.gangs["gpu"].parts[0].node_cell.chain.spec.leaf_type == "M60"


def test_asking_for_a_reserved_gang_on_a_bad_node_changes_nothing(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE": 2}})
    for name in ("low", "other"):
        driver.run(name, "a", 4)
    preempt = driver.threaten("high", "a", 4, priority=5)
    driver.core.set_node(preempt.spots[0].node, is_healthy=False)
    driver.look()
    assert driver.core.cluster.gangs[preempt.victims[0]].state is State.ALLOCATED
    before = json.dumps(driver.core.snapshot(), sort_keys=True)
    decision = driver.ask("high", "a", 4, priority=5)
    assert not isinstance(decision, Wait)
    assert decision.spots[0].node != preempt.spots[0].node
    assert json.dumps(driver.core.snapshot(), sort_keys=True) == before


def test_looking_at_the_books_shows_no_proposal_and_drops_none(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 1, "RACK.NODE": 1}})
    driver.run("low", "a", 4, 4, is_lazily_preemptible=True)
    driver.run("guest", "a", 4, priority=-1, nodes=frozenset({"r1n0"}))
    cluster = driver.core.cluster
    before = cluster_status(cluster), affinity_groups(cluster)
    requests = [GangRequest("one", "a", ((2, 4),), 5), GangRequest("two", "a", ((1, 3),), 7)]
    assert not isinstance(driver.core.schedule(requests[0]), Wait)
    assert (cluster_status(cluster), affinity_groups(cluster)) == before
    driver.core.commit("one")
    driver.look()
    driver.core.release("one")
    between = cluster_status(cluster), affinity_groups(cluster)
    assert not isinstance(driver.core.schedule_all(requests), Wait)
    assert (cluster_status(cluster), affinity_groups(cluster)) == between
    driver.core.commit_all()
    driver.look()


def test_that_no_promised_cell_is_left_is_seen_without_serving_all_gangs_anew(racks: Make) -> None:
    def cost(nodes: int) -> int:
        driver = racks(nodes, {"a": {"RACK.NODE": nodes}, "b": {"RACK.NODE": nodes}})
        for at in range(nodes):
            driver.run(f"own{at}", "a", 1, nodes=frozenset({f"r{at}n0"}))
        driver.run("guest", "a", 1, priority=-1, nodes=frozenset({"r0n1"}))
        asked = replace(driver.core.cluster.gangs["guest"].request, priority=0)
        lines = lines_run(lambda: driver.core.change(asked))
        driver.look()
        assert driver.core.cluster.gangs["guest"].lazily_preempted_by is not None
        return lines

    assert cost(20) - cost(10) < 10 * 50
