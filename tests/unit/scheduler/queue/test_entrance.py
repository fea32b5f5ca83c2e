"""The whole scheduler behind the platform's entrance: groups, seats, what it shows, snapshots and replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import read_promises
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.interface import Amount
from openpai.scheduler.model import Ask, Gang, Group, Limit, Node, Place, Preempt, Spot, Topology, Why
from openpai.scheduler.queue.replay import answer, resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.unit.scheduler.queue.queues import gang

NODES = (
    Node("v0", 16, 32768, 4),
    Node("v1", 16, 32768, 4),
    Node("t0", 8, 16384, 2),
    Node("c0", 8, 16384, 0),
)
MODELS = dict(zip(("v0", "v1", "t0", "c0"), ("V100", "V100", "T4", ""), strict=True))


def planned(promises: str) -> HivedConfig:
    return plan([(node, MODELS[node.name]) for node in NODES], read_promises(promises))


@pytest.fixture
def scheduler() -> HivedScheduler:
    made = HivedScheduler(planned("a: 2 nodes of V100, a: 1 node of T4, b: 1 node of CPU, idle: rest"))
    for node in NODES:
        made.set_node(node)
    return made


def mixed(name: str, **more: Any) -> Gang:
    """Return a gang of two workers with V100s and a server with a T4."""
    return gang(name, 4, 4, 1, sku_type="V100", groups=(Group((2,), "T4", name="server"),), **more)


def place(scheduler: HivedScheduler, now_ms: int = 0) -> dict[str, tuple[Spot, ...]]:
    found = {}
    for decision in scheduler.decide(now_ms, 100):
        assert isinstance(decision, Place), decision
        scheduler.commit(decision.gang)
        found[decision.gang] = decision.spots
    return found


def code_of(scheduler: HivedScheduler, name: str) -> Why:
    why = scheduler.why(name)
    assert why is not None
    return why.code


def test_without_a_configuration_every_gang_waits_for_one() -> None:
    scheduler = HivedScheduler()
    for node in NODES:
        scheduler.set_node(node)
    scheduler.add(gang("g", 1))
    assert place(scheduler) == {}
    assert code_of(scheduler, "g") is Why.NO_VIRTUAL_CLUSTER
    assert scheduler.virtual_clusters() == ()
    assert resume(json.loads(json.dumps(scheduler.snapshot()))).why("g") == scheduler.why("g")
    assert scheduler.reconfigure(planned("a: 1 node of V100")).demoted == ()
    assert set(place(scheduler)) == {"g"}


def test_other_amounts_of_the_same_nodes_build_no_cells_anew() -> None:
    """A pod of others takes a CPU of a node: a large cluster must not be worked out once more for that."""
    scheduler = HivedScheduler(planned("a: rest"))
    for node in NODES:
        scheduler.set_node(node)
    scheduler.add(gang("runs", 1))
    assert "runs" in place(scheduler)
    cluster = scheduler.core.cluster
    smaller = [(replace(node, cpus=15) if node.name == "v1" else node, MODELS[node.name]) for node in NODES]
    report = scheduler.reconfigure(plan(smaller, read_promises("a: rest")))
    assert (report.kept, report.demoted, report.waiting) == (("runs",), (), ())
    assert scheduler.core.cluster is cluster
    assert scheduler.sku_types()["V100"].cpus == 15 // 4
    again = resume(json.loads(json.dumps(scheduler.snapshot())))
    assert again.sku_types() == scheduler.sku_types()


def test_running_gangs_keep_their_devices_when_their_virtual_cluster_goes(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("g", 2))
    spots = place(scheduler)["g"]
    report = scheduler.reconfigure(planned("b: 1 node of CPU, new: rest"))
    assert report.demoted == ("g",)
    assert scheduler.core.spots_held("g")[0].devices == spots[0].devices
    scheduler.add(gang("h", 1))
    assert place(scheduler) == {}
    assert code_of(scheduler, "h") is Why.NO_VIRTUAL_CLUSTER
    scheduler.change(gang("h", 1, virtual_cluster="new"))
    assert set(place(scheduler)) == {"h"}


def test_a_virtual_cluster_without_cells_serves_only_gangs_without_a_guarantee(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("g", 1, virtual_cluster="idle"))
    scheduler.add(gang("guest", 1, virtual_cluster="idle", priority=-1))
    assert set(place(scheduler)) == {"guest"}
    assert code_of(scheduler, "g") is Why.NO_VIRTUAL_CLUSTER


def test_groups_of_a_gang_get_their_own_hardware_together_or_wait_together(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("server", 2, sku_type="T4"))
    assert set(place(scheduler)) == {"server"}
    scheduler.add(mixed("g"))
    assert place(scheduler) == {}
    assert code_of(scheduler, "g") is Why.NOT_ENOUGH_FREE
    assert set(scheduler.core.cluster.gangs) == {"server"}
    scheduler.release("server")
    spots = place(scheduler)["g"]
    assert [(spot.node[0], len(spot.devices)) for spot in spots] == [("v", 4), ("v", 4), ("t", 1)]
    scheduler.release("g", [0, 2])
    scheduler.add(gang("next", 4))
    assert place(scheduler)["next"][0].node == spots[0].node
    scheduler.release("g", [1])
    assert {scheduler.state.gang_name(name) for name in scheduler.core.cluster.gangs} == {"next"}


def test_what_one_group_must_wait_for_is_reserved_for_all(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("low", 2, sku_type="T4"))
    place(scheduler)
    scheduler.add(mixed("g", priority=5))
    (decision,) = scheduler.decide(1, 100)
    assert isinstance(decision, Preempt)
    assert (decision.gang, decision.victims) == ("g", ("low",))
    scheduler.add(gang("late", 1, sku_type="V100"))
    assert scheduler.decide(2, 100) == ()
    scheduler.release("low")
    assert set(place(scheduler, 3)) == {"g"}
    scheduler.release("g")
    assert set(place(scheduler, 4)) == {"late"}


def test_a_reservation_that_is_given_up_frees_all_groups(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("low", 2, sku_type="T4"))
    place(scheduler)
    scheduler.add(mixed("g", priority=5))
    assert isinstance(scheduler.decide(1, 100)[0], Preempt)
    scheduler.cancel("g")
    scheduler.add(gang("whole", 4, 4, sku_type="V100"))
    assert set(place(scheduler)) == {"whole"}
    assert set(scheduler.core.cluster.gangs) == {"low", "whole"}


def test_a_request_for_a_cell_to_stay_inside_is_kept(scheduler: HivedScheduler) -> None:
    promise = Topology("V100-2", is_required=True)
    scheduler.add(gang("odd", 1, sku_type="V100"))
    scheduler.add(gang("pair", 1, 1, sku_type="V100", topology=promise))
    scheduler.add(gang("trio", 1, 1, 1, sku_type="V100", topology=promise))
    pair = place(scheduler)["pair"]
    assert sorted(spot.devices[0] // 2 for spot in pair) in ([0, 0], [1, 1])
    why = scheduler.why("trio")
    assert why is not None
    assert (why.code, why.position) == (Why.NO_NODE, 0)
    assert "inside one V100-2" in why.message


def test_members_are_restored_exactly_also_where_only_cpus_were_taken(scheduler: HivedScheduler) -> None:
    # Eight devices of one CPU each: the second gang sits between two that are gone afterwards.
    for number in range(3):
        scheduler.add(Gang(f"c{number}", (Ask(2, 1024, 0),), "b"))
    scheduler.add(gang("hungry", 1, sku_type="V100"))
    scheduler.change(Gang("hungry", (Ask(9, 1024, 1),), "a", sku_type="V100"))
    spots = place(scheduler)
    assert len(spots["hungry"][0].devices) == 1
    fresh = HivedScheduler(read_config(scheduler.core.cluster.config.text))
    for node in NODES:
        fresh.set_node(node)
    fresh.restore(Gang("hungry", (Ask(9, 1024, 1),), "a", sku_type="V100"), spots["hungry"])
    fresh.restore(Gang("c1", (Ask(2, 1024, 0),), "b"), spots["c1"])
    for name in ("hungry", "c1"):
        assert fresh.core.spots_held(name) == scheduler.core.spots_held(name)


def test_a_restored_gang_with_an_unknown_placement_hint_gets_the_cells_of_its_gpus(scheduler: HivedScheduler) -> None:
    scheduler.restore(gang("g", 2), [Spot("v1", (2, 3), "GONE-POOL:2,3")])
    assert scheduler.core.spots_held("g") == (Spot("v1", (2, 3)),)
    scheduler.restore(Gang("c", (Ask(2, 1024, 0),), "b"), [Spot("c0", ())])
    assert len(scheduler.core.spots_held("c")[0].devices) == 2


def test_virtual_clusters_and_skus_are_shown_as_they_are(scheduler: HivedScheduler) -> None:
    scheduler.set_node(Node("v1", 16, 32768, 4, is_schedulable=False))
    scheduler.add(gang("g", 4, sku_type="V100"))
    scheduler.add(gang("guest", 2, priority=-1, sku_type="T4"))
    scheduler.add(gang("more", 4, sku_type="V100"))
    place(scheduler)
    a, b, idle = scheduler.virtual_clusters()
    assert (a.name, a.total, a.used) == ("a", Amount(40, 81920, 10), Amount(16, 32768, 4))
    assert (a.guaranteed.gpus, a.borrowed.gpus, a.running, a.waiting) == (6, 2, 2, 1)
    assert (a.skus, b.skus, idle.total) == ({"V100": 8, "T4": 2}, {"CPU": 8}, Amount())
    assert scheduler.sku_types("b") == {"CPU": Amount(1, 2048, 0)}
    assert set(scheduler.sku_types()) == {"V100", "T4", "CPU"}
    scheduler.release("g")
    scheduler.set_node(NODES[1])
    scheduler.cancel("more")
    scheduler.release("guest")
    scheduler.add(mixed("m"))
    place(scheduler)
    shown = scheduler.inspect()
    assert [group["metadata"]["name"] for group in shown["affinityGroups"]] == ["m"]
    assert set(shown["affinityGroups"][0]["status"]["physicalPlacement"]) == {"v0", "v1", "t0"}
    assert json.loads(json.dumps(shown))["virtualClusters"].keys() == {"a", "b", "idle"}


def test_a_snapshot_goes_on_and_one_decision_can_be_looked_at_again(scheduler: HivedScheduler) -> None:
    scheduler.set_limits([Limit(8, "a", "ann")])
    scheduler.learn_use("a", "ann", 5e9, 0)
    scheduler.add(gang("runs", 4, user="ann", sku_type="V100"))
    place(scheduler)
    scheduler.checkpointed("runs", 7)
    scheduler.add(gang("next", 4, 4, user="bob", sku_type="V100", submitted_at_ms=5))
    scheduler.add(gang("small", 4, user="ann", sku_type="V100", submitted_at_ms=6))
    data = json.loads(json.dumps(scheduler.snapshot()))
    message = answer(data, "next", 10)
    assert message["decision"] == "wait"
    assert message["why"]["code"] == "NOT_ENOUGH_FREE"
    assert [spot["node"] for spot in answer(data, "small", 10)["decision"]["place"]] == ["v1"]
    assert resume(data).core.cluster.gangs["runs"].checkpoint_ms == 7
    assert resume(data).decide(10, 100) == scheduler.decide(10, 100)
    with pytest.raises(Refused, match="does not wait"):
        answer(data, "runs")
    with pytest.raises(Refused, match="not a scheduler snapshot"):
        resume({"format": 0})


def test_a_running_gang_moves_to_another_virtual_cluster_where_it_is(
    scheduler: HivedScheduler, text_of_racks: Callable[..., str]
) -> None:
    scheduler = HivedScheduler(read_config(text_of_racks(1, {"a": {"RACK.NODE": 1}, "b": {"RACK.NODE": 1}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    scheduler.add(gang("g", 2))
    (spot,) = place(scheduler)["g"]
    scheduler.change(gang("g", 2, virtual_cluster="b"))
    assert scheduler.core.spots_held("g")[0][:2] == (spot.node, spot.devices)
    assert [share.used.gpus for share in scheduler.virtual_clusters()] == [0, 2]
    scheduler.add(gang("whole", 4))
    assert set(place(scheduler)) == {"whole"}
