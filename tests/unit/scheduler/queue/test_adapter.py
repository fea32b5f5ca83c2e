"""The HiveD core behind the platform's entrance: asks become devices, gangs wait in a fair order, and it says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Ask, Gang, Node, Place, Preempt, Spot, Why
from openpai.scheduler.queue.placement_hint import read_hint
from openpai.scheduler.queue.scheduler import HivedScheduler

CONFIG = """
physicalCluster:
  skuTypes:
    V100: {gpu: 1, cpu: 4, memory: 8192Mi}
    CPU: {cpu: 2, memory: 4096Mi}
  cellTypes:
    V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
    V100-POOL: {childCellType: V100-NODE, childCellNumber: 2}
    CPU-NODE: {childCellType: CPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - cellType: V100-POOL
    cellChildren: [{cellAddress: n0}, {cellAddress: n1, pinnedCellId: mine}]
  - {cellType: CPU-NODE, cellAddress: c0}
virtualClusters:
  default:
    virtualCells:
    - {cellType: V100-POOL.V100-NODE, cellNumber: 1}
    pinnedCells: [{pinnedCellId: mine}]
  cpu:
    virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]
"""

NODES = (Node("n0", 16, 32768, 4), Node("n1", 16, 32768, 4), Node("c0", 8, 16384, 0))


@pytest.fixture
def scheduler() -> HivedScheduler:
    made = HivedScheduler(read_config(CONFIG))
    for node in NODES:
        made.set_node(node)
    return made


def gang(name: str, *gpus: int, **more: Any) -> Gang:
    return Gang(name, tuple(Ask(1, 1024, number) for number in gpus), **{"sku_type": "V100", **more})


def placed(scheduler: HivedScheduler, now_ms: int = 0) -> dict[str, Any]:
    return {decision.gang: decision for decision in scheduler.decide(now_ms, 100)}


def test_a_gang_gets_its_spots_and_gives_them_back(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("one", 2, 2))
    spots = (Spot("n0", (0, 1), "V100-POOL:0-1@2"), Spot("n0", (2, 3), "V100-POOL:2-3@2"))
    assert placed(scheduler) == {"one": Place("one", spots)}
    scheduler.commit("one")
    scheduler.add(gang("two", 4))
    assert placed(scheduler) == {}
    scheduler.release("one", [0])
    assert placed(scheduler) == {}
    scheduler.release("one", [1])
    assert set(placed(scheduler)) == {"two"}


def test_what_is_set_aside_is_not_given_twice(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("one", 4))
    scheduler.add(gang("two", 4))
    assert set(placed(scheduler)) == {"one"}
    assert placed(scheduler) == {}
    scheduler.reject("one")
    assert set(placed(scheduler)) == {"one"}


@pytest.mark.parametrize(
    ("ask", "sku", "devices"),
    [
        (Ask(1, 1024, 2), "V100", 2),
        (Ask(9, 1024, 1), "V100", 3),
        (Ask(1, 8193, 1), "V100", 2),
        (Ask(1, 1024, 0), "V100", 1),
    ],
)
def test_the_scarcest_resource_says_how_many_devices(
    scheduler: HivedScheduler, ask: Ask, sku: str, devices: int
) -> None:
    scheduler.add(Gang("g", (ask,), sku_type=sku))
    (spot,) = placed(scheduler)["g"].spots
    assert len(spot.devices) == ask.gpus
    placement_hint = read_hint(scheduler.cluster, spot)
    assert placement_hint is not None
    assert len(placement_hint[1]) == devices


def test_devices_without_gpus_have_no_gpu_numbers(scheduler: HivedScheduler) -> None:
    scheduler.add(Gang("g", (Ask(3, 1024, 0),), "cpu"))
    assert placed(scheduler) == {"g": Place("g", (Spot("c0", (), "CPU-NODE:0-1@2"),))}
    scheduler.add(Gang("h", (Ask(6, 1024, 0),), "cpu"))
    assert placed(scheduler) == {}


@pytest.mark.parametrize(
    ("promise", "message"),
    [
        (
            Gang("g", (Ask(1, 1, 1),), "cpu", sku_type="CPU"),
            "a task asks for 1 GPU, and no node of virtual cluster cpu has any",
        ),
        (Gang("g", (Ask(1, 1, 5),), sku_type="V100"), "a task asks for 5 GPUs; virtual cluster default"),
        (Gang("g", (Ask(1, 1, 1),), "nowhere"), "no virtual cluster 'nowhere'"),
        (Gang("g", (Ask(1, 1, 1),), "cpu"), "no node of virtual cluster cpu has any"),
        (Gang("g", (Ask(1, 1, 1),), sku_type="V100", pinned_cell="mine"), "both a SKU and a pinned cell"),
        (Gang("g", (Ask(1, 1, 1),), sku_type="K80"), "no SKU type 'K80'"),
    ],
)
def test_what_could_never_run_is_refused_and_waits_if_added_all_the_same(
    scheduler: HivedScheduler, promise: Gang, message: str
) -> None:
    refused = scheduler.refusal(promise)
    assert refused is not None
    assert message in refused.message
    assert refused.remedy
    scheduler.add(promise)
    assert placed(scheduler) == {}
    why = scheduler.why("g")
    assert why is not None
    assert message in why.message
    scheduler.cancel("g")
    assert scheduler.why("g") is None


def test_proposed_devices_are_freed_when_their_gang_is_cancelled(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("one", 4))
    placed(scheduler)
    scheduler.cancel("one")
    scheduler.add(gang("two", 4))
    assert set(placed(scheduler)) == {"two"}
    scheduler.commit("two")
    scheduler.cancel("two")
    scheduler.reject("two")
    scheduler.add(gang("three", 4))
    assert placed(scheduler) == {}


def test_a_pinned_cell_is_used_by_name(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("g", 4, sku_type=None, pinned_cell="mine"))
    assert placed(scheduler)["g"].spots[0].node == "n1"


def test_a_gang_that_names_no_sku_gets_one_that_serves_it(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("g", 1, sku_type=None, priority=-1))
    assert placed(scheduler)["g"].spots[0].node in ("n0", "n1")


def test_unreported_nodes_are_not_used() -> None:
    scheduler = HivedScheduler(read_config(CONFIG))
    scheduler.add(gang("g", 1))
    assert placed(scheduler) == {}
    why = scheduler.why("g")
    assert why is not None
    assert why.code is Why.UNHEALTHY_NODES
    scheduler.set_node(NODES[0])
    assert set(placed(scheduler)) == {"g"}


def test_bad_devices_and_lost_nodes_take_nothing_new(scheduler: HivedScheduler) -> None:
    scheduler.set_node(Node("n0", 16, 32768, 4, bad_devices=frozenset({0})))
    scheduler.add(gang("g", 3))
    assert placed(scheduler)["g"].spots[0][:2] == ("n0", (1, 2, 3))
    scheduler.release("g")
    scheduler.remove_node("n0")
    scheduler.add(gang("h", 1))
    assert placed(scheduler) == {}


def test_preemption_is_proposed_once_and_then_carried_out(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("low", 4, priority=10))
    placed(scheduler)
    scheduler.commit("low")
    scheduler.add(gang("high", 4, priority=100, job="ann~urgent"))
    decision = placed(scheduler)["high"]
    assert isinstance(decision, Preempt)
    assert decision.victims == ("low",)
    assert placed(scheduler, 9_999) == {}
    assert placed(scheduler, 10_000) == {"high": decision}
    why = scheduler.why("high")
    assert why is not None
    assert "waits for low to leave" in why.message
    scheduler.release("low")
    why = scheduler.why("high")
    assert why is not None
    assert why.message == "its resources are free now"
    assert isinstance(placed(scheduler)["high"], Place)


def test_each_victim_is_reported_why_it_must_leave(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("test", 4))
    placed(scheduler)
    scheduler.commit("test")
    scheduler.add(gang("urgent", 4, priority=100, job="ann~urgent"))
    decision = placed(scheduler)["urgent"]
    assert decision.whys == ("ann~urgent is more urgent and needs these resources of virtual cluster default",)
    scheduler.cancel("urgent")
    scheduler.release("test")
    scheduler.add(Gang("guest", (Ask(1, 1, 4), Ask(1, 1, 4)), "cpu", -1, sku_type="V100"))
    placed(scheduler)
    scheduler.commit("guest")
    scheduler.add(gang("owner", 4, job="ann~owner"))
    (why,) = placed(scheduler)["owner"].whys
    assert why.startswith("ann~owner needs these resources: its virtual cluster default was promised them")
    assert "opportunistic" in why


def test_who_loses_what_was_reserved_waits_again_at_once(scheduler: HivedScheduler) -> None:
    scheduler.add(Gang("guest", (Ask(1, 1, 4), Ask(1, 1, 4)), "cpu", -1, sku_type="V100"))
    placed(scheduler)
    scheduler.commit("guest")
    scheduler.add(gang("low", 4, priority=10))
    assert isinstance(placed(scheduler)["low"], Preempt)
    scheduler.add(gang("high", 4, priority=100))
    assert set(placed(scheduler)) == {"high"}
    why = scheduler.why("low")
    assert why is not None
    assert why.message == "virtual cluster default uses 4 of its 4 GPUs (V100); this needs 4"


def test_a_cancelled_preemption_spares_its_victims(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("low", 4, priority=10))
    placed(scheduler)
    scheduler.commit("low")
    scheduler.add(gang("high", 4, priority=100))
    placed(scheduler)
    scheduler.cancel("high")
    assert scheduler.why("high") is None
    scheduler.add(gang("same", 4, priority=10))
    assert placed(scheduler) == {}


def test_priority_then_age_decide_which_gang_goes_first(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("young", 4, submitted_at_ms=2, job="u~young"))
    scheduler.add(gang("old", 4, submitted_at_ms=1, job="u~old"))
    scheduler.add(gang("high", 4, priority=5, submitted_at_ms=3, job="u~high"))
    why = scheduler.why("young")
    assert why is not None
    assert (why.position, why.ahead, why.code) == (3, ("u~old", "u~high"), Why.NOT_YET_LOOKED_AT)
    assert set(placed(scheduler)) == {"high"}
    why = scheduler.why("old")
    assert why is not None
    assert why.code is Why.NOT_ENOUGH_FREE
    assert "uses 4 of its 4 GPUs (V100)" in why.message


def test_the_reason_is_as_things_are_and_not_as_they_were(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("one", 1))
    placed(scheduler)
    scheduler.add(gang("whole", 4))
    placed(scheduler, 1)
    before = scheduler.why("whole")
    assert before is not None
    assert "uses 1 of its 4 GPUs (V100)" in before.message
    scheduler.add(gang("two", 2))
    assert set(placed(scheduler, 2)) == {"two"}
    after = scheduler.why("whole")
    assert after is not None
    assert "uses 3 of its 4 GPUs (V100)" in after.message
    assert after.unblock.endswith("until 3 more are free")


def test_bad_hardware_is_named_with_what_is_known_of_it(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 3))
    placed(scheduler)
    scheduler.commit("runs")
    scheduler.set_node(Node("n0", 16, 32768, 4, False, message="drained: new fan"))
    scheduler.add(gang("waits", 2))
    placed(scheduler)
    why = scheduler.why("waits")
    assert why is not None
    assert why.code is Why.UNHEALTHY_NODES
    assert "uses 3 of its 4 GPUs (V100), and 4 of them are bad or drained; this needs 2" in why.message
    assert why.message.endswith("(out of service: n0, drained: new fan)")
    assert why.unblock.startswith("bad and drained hardware coming back, and jobs of default")


def test_a_gang_that_never_fits_is_not_ahead_of_others_and_a_job_is_named_once(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 4))
    scheduler.add(gang("too-large", 5, job="u~large", submitted_at_ms=1))
    for number in range(7):
        scheduler.add(gang(f"part{number}", 1, job="u~parts", submitted_at_ms=2 + number))
    scheduler.add(gang("last", 1, job="u~last", submitted_at_ms=20))
    assert set(placed(scheduler)) == {"runs"}
    why = scheduler.why("last")
    assert why is not None
    assert (why.position, why.ahead) == (8, ("u~parts",))


def test_a_gang_that_waited_long_is_not_passed_for_ever(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("half", 2))
    placed(scheduler, 7_100_000)
    scheduler.add(gang("whole", 4, submitted_at_ms=0, job="u~whole"))
    scheduler.add(gang("passing", 1, submitted_at_ms=1))
    assert set(placed(scheduler, 7_199_000)) == {"passing"}
    assert placed(scheduler, 7_200_000) == {}
    scheduler.add(gang("late", 1, submitted_at_ms=2, job="u~late"))
    assert placed(scheduler, 7_200_001) == {}
    why = scheduler.why("late")
    assert why is not None
    assert why.code is Why.BEHIND_OLDER_JOB
    assert "u~whole" in why.message
    scheduler.release("half")
    scheduler.release("passing")
    assert set(placed(scheduler, 7_200_002)) == {"whole"}


def test_guests_take_turns_by_what_their_virtual_cluster_borrows(text_of_racks: Callable[..., str]) -> None:
    scheduler = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK.NODE": 2}, "b": {"RACK.NODE": 1}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 4, 4096, 4))
    for number in range(6):
        for owner in ("a", "b"):
            ask = (Ask(1, 1024, 2),)
            scheduler.add(Gang(f"{owner}{number}", ask, owner, -1, submitted_at_ms=0 if owner == "b" else 1))
    order = [decision.gang for _ in range(6) for decision in scheduler.decide(0, 1)]
    assert sorted(name[0] for name in order) == ["a"] * 4 + ["b"] * 2


def test_running_gangs_are_taken_up_after_a_restart(scheduler: HivedScheduler) -> None:
    scheduler.restore(gang("g", 2, 1), [Spot("n0", (1, 2)), None])
    scheduler.restore(Gang("c", (Ask(3, 1024, 0),), "cpu"), [Spot("c0", ())])
    scheduler.add(gang("next", 2))
    assert placed(scheduler)["next"].spots[0][:2] == ("n0", (0, 3))
    scheduler.add(Gang("big", (Ask(6, 1024, 0),), "cpu"))
    assert "big" not in placed(scheduler)
    scheduler.release("c")
    assert set(placed(scheduler)) == {"big"}


def test_devices_of_unknown_worth_are_equal_shares_of_their_node() -> None:
    document = yaml.safe_load(CONFIG)
    del document["physicalCluster"]["skuTypes"]
    scheduler = HivedScheduler(read_config(yaml.safe_dump(document)))
    for node in NODES:
        scheduler.set_node(node)
    scheduler.add(Gang("g", (Ask(8, 1024, 1),), sku_type="V100"))
    assert placed(scheduler)["g"].spots == (Spot("n0", (0,), "V100-POOL:0-1@2"),)


def test_a_new_configuration_keeps_what_runs_and_what_waits(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("one", 4))
    placed(scheduler)
    scheduler.commit("one")
    scheduler.add(gang("two", 4))
    scheduler.add(gang("pinned", 1, sku_type=None, pinned_cell="mine"))
    scheduler.add(Gang("cpu", (Ask(1, 1024, 0),), "cpu"))
    assert set(placed(scheduler)) == {"pinned", "cpu"}
    scheduler.reject("cpu")
    document = yaml.safe_load(CONFIG)
    del document["virtualClusters"]["cpu"]
    del document["virtualClusters"]["default"]["pinnedCells"]
    document["virtualClusters"]["default"]["virtualCells"][0]["cellNumber"] = 2
    report = scheduler.reconfigure(read_config(yaml.safe_dump(document)))
    assert (report.kept, report.demoted) == (("one",), ("pinned",))
    decision = placed(scheduler)
    assert isinstance(decision["two"], Preempt)
    assert decision["two"].victims == ("pinned",)
    why = scheduler.why("cpu")
    assert why is not None
    assert "no virtual cluster 'cpu'" in why.message
