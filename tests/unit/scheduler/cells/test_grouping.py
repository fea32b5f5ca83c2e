"""Members that must lie closer together than the rest of their gang: in one switch, and groups in groups."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, CellGroup, Code, Decision, GangRequest, NodeHealth, Preempt, Wait
from openpai.scheduler.model import Topology
from tests.costs import lines_run
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

Make = Callable[..., Any]


def switches(decision: Decision) -> list[set[tuple[str, int]]]:
    """Return the switches that each member touches; a switch of these clusters has two devices."""
    assert isinstance(decision, Bind | Preempt), decision
    return [{(spot.node, device // 2) for device in spot.devices} for spot in decision.spots]


def in_switches(*members: int) -> tuple[CellGroup, ...]:
    return tuple(CellGroup("SWITCH", (member,)) for member in members)


def test_two_devices_in_one_switch(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.run("one", "a", 1, nodes=frozenset({"r0n0"}))
    driver.run("other", "a", 1, groups=(CellGroup("SWITCH", (0,)),), nodes=frozenset({"r0n0"}))
    assert switches(driver.ask("pair", "a", 2, groups=in_switches(0))) == [{("r0n0", 1)}]


def test_a_member_waits_for_a_switch_where_devices_of_two_are_free(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1}})
    driver.core.set_node("r0n0", bad_devices=[0, 2])
    driver.core.set_node("r0n1", is_healthy=False)
    assert isinstance(driver.ask("apart", "a", 2), Bind)
    wait = driver.ask("pair", "a", 2, groups=in_switches(0))
    assert isinstance(wait, Wait)
    assert wait.code in (Code.OUTSIDE_TOPOLOGY, Code.BAD_HARDWARE)
    driver.core.set_node("r0n0", bad_devices=[0])
    assert switches(driver.ask("pair", "a", 2, groups=in_switches(0))) == [{("r0n0", 1)}]


def test_groups_lie_in_groups(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 2}})
    pair = CellGroup("NODE", groups=in_switches(0, 1))
    other = CellGroup("NODE", (2,), groups=in_switches(3))
    decision = driver.run("gang", "a", 2, 2, 2, 2, groups=(CellGroup("RACK", groups=(pair, other)),))
    assert [len(each) for each in switches(decision)] == [1, 1, 1, 1]
    nodes = [spot.node for spot in decision.spots]
    assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
    assert {node[:2] for node in nodes} == {"r0"}


def test_a_group_makes_room_like_any_gang(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("low", "a", 3, nodes=frozenset({"r0n0"}))
    driver.run("guest", "a", 3, priority=-1, nodes=frozenset({"r0n1"}))
    decision = driver.threaten("high", "a", 2, 2, 2, priority=5, groups=in_switches(0, 1, 2))
    assert [len(each) for each in switches(decision)] == [1, 1, 1]
    for victim in decision.victims:
        driver.end(victim)
    assert isinstance(driver.ask("high", "a", 2, 2, 2, priority=5, groups=in_switches(0, 1, 2)), Bind)


def test_opportunistic_gangs_have_groups_too(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("one", "a", 1, priority=-1)
    decision = driver.run("guest", "a", 2, 2, priority=-1, groups=in_switches(0, 1))
    assert [len(each) for each in switches(decision)] == [1, 1]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((CellGroup("ROW", (0,)),), "no cell type 'ROW'"),
        ((CellGroup("SWITCH", (5,)),), "task 5"),
        ((CellGroup("SWITCH", (0,)), CellGroup("NODE", (0,))), "task 0"),
        ((CellGroup("SWITCH", (-1,)),), "task -1"),
    ],
)
def test_a_group_that_cannot_be_is_refused(racks: Make, groups: tuple[CellGroup, ...], message: str) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    with pytest.raises(Refused, match=message):
        driver.ask("gang", "a", 2, groups=groups)


def test_groups_too_deep_are_refused(racks: Make) -> None:
    group = CellGroup("RACK", (0,))
    for _ in range(50):
        group = CellGroup("RACK", groups=(group,))
    with pytest.raises(Refused, match="deep"):
        racks(1, {"a": {"RACK": 1}}).ask("gang", "a", 2, groups=(group,))


def test_a_group_larger_than_its_cell_waits_for_another_configuration(racks: Make) -> None:
    wait = racks(1, {"a": {"RACK": 1}}).ask("gang", "a", 3, groups=in_switches(0))
    assert isinstance(wait, Wait)
    assert wait.code is Code.TOO_LARGE


def test_a_gang_with_groups_survives_a_snapshot(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("gang", "a", 2, 2, groups=(CellGroup("NODE", groups=in_switches(0, 1)),))
    again = Hived.from_snapshot(json.loads(json.dumps(driver.core.snapshot())))
    assert again.cluster.gangs["gang"].request == driver.core.cluster.gangs["gang"].request


def test_a_group_leaves_the_larger_promised_cell_to_gangs_that_need_it(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK.NODE.SWITCH": 1, "RACK.NODE": 1}})
    spots = driver.run("gang", "a", 2, 3, groups=in_switches(0)).spots
    assert spots[0].node != spots[1].node


def test_a_group_goes_around_bad_hardware_that_its_gang_needs(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 1, "RACK.NODE.SWITCH": 1}})
    driver.core.set_node("r0n1", bad_devices=[1])
    spots = driver.run("gang", "a", 1, 2, 2, groups=(CellGroup("RACK", (0,)),)).spots
    assert [spot.node for spot in spots] == ["r0n1", "r0n0", "r0n0"]


@pytest.mark.parametrize("priority", [0, -1])
def test_members_each_in_a_switch_cost_at_most_a_look_at_each_cell(text_of_racks: Make, priority: int) -> None:
    def work(members: int) -> Callable[[], None]:
        racks = members // 4 + 2
        core = core_of(text_of_racks(racks, {"a": {"RACK": racks}}))
        request = GangRequest("many", "a", ((members, 2),), priority, groups=in_switches(*range(members)))

        def place() -> None:
            assert {len(each) for each in switches(core.schedule(request))} == {1}

        return place

    few, many = lines_run(work(50)), lines_run(work(100))
    assert many < 4 * few, (few, many)


@pytest.mark.parametrize("seed", range(30))
def test_groups_are_kept_together_whatever_happens(text_of_racks: Make, seed: int) -> None:
    dice = Random(seed)
    core = core_of(text_of_racks(3, {"a": {"RACK": 1, "RACK.NODE": 2}, "b": {"RACK.NODE.SWITCH": 3}}))
    names = sorted(core.cluster.node_cells)
    placed = 0
    for number in range(40):
        sizes = [dice.choice([1, 1, 2]) for _ in range(dice.randint(1, 4))]
        members = tuple((1, size) for size in sizes)
        cut = dice.randint(0, len(sizes))
        inner = in_switches(*range(cut))
        kind = dice.choice(["NODE", "RACK"])
        groups = (CellGroup(kind, tuple(range(cut, len(sizes))), inner),) if dice.random() < 0.5 else inner
        promise = Topology("RACK", True) if dice.random() < 0.2 else None
        owner, priority = dice.choice("ab"), dice.choice([-1, 0, 5])
        request = GangRequest(f"g{number}", owner, members, priority, topology=promise, groups=groups)
        decision = core.schedule(request)
        if not isinstance(decision, Wait):
            placed += 1
            assert all(len(each) == 1 for each in switches(decision)[:cut])
            if groups is not inner:
                assert len({spot.node if kind == "NODE" else spot.node[:2] for spot in decision.spots}) == 1
            core.commit(request.id)
            for victim in getattr(decision, "victims", ()):
                core.release(victim)
            assert core.schedule(request).spots == decision.spots  # type: ignore[union-attr]
            core.commit(request.id)
        assert audit(core.cluster) == []
        if core.cluster.gangs and dice.random() < 0.5:
            core.release(dice.choice(sorted(core.cluster.gangs)))
        if dice.random() < 0.2:
            core.set_nodes({dice.choice(names): NodeHealth(bad_devices=frozenset({dice.randrange(4)}))})
        if dice.random() < 0.1:
            core.set_nodes(dict.fromkeys(names, NodeHealth()))
    assert placed > 5
