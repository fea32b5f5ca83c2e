"""Parts of a GPU as leaf cells with their own SKU: slices (MIG) or shares of the memory, beside whole GPUs."""

from __future__ import annotations

from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, CellGroup, GangRequest, NodeHealth, Preempt
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Ask, Gang, Group, Node, Place
from openpai.scheduler.queue.placement_hint import read_hint
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

SLICES = """
physicalCluster:
  skuTypes:
    A100-SLICE: {gpu: 1, cpu: 2, memory: 10Gi}
    V100: {gpu: 1, cpu: 4, memory: 50Gi}
  cellTypes:
    A100: {childCellType: A100-SLICE, childCellNumber: 7}
    A100-NODE: {childCellType: A100, childCellNumber: 8, isNodeLevel: true}
    V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
  - {cellType: A100-NODE, cellAddress: a0}
  - {cellType: A100-NODE, cellAddress: a1}
  - {cellType: V100-NODE, cellAddress: v0}
virtualClusters:
  vision:
    virtualCells: [{cellType: A100-NODE, cellNumber: 1}, {cellType: V100-NODE, cellNumber: 1}]
  speech:
    virtualCells: [{cellType: A100-NODE.A100, cellNumber: 4}, {cellType: A100-NODE.A100.A100-SLICE, cellNumber: 14}]
"""
WHOLE_GPU = (CellGroup("A100", (0,)),)


def gpus(decision: object) -> list[set[tuple[str, int]]]:
    assert isinstance(decision, Bind | Preempt), decision
    return [{(spot.node, device // 7) for device in spot.devices} for spot in decision.spots]


def test_slices_and_whole_gpus_are_promised_and_placed_side_by_side() -> None:
    core = core_of(SLICES)
    for number in range(14):
        assert isinstance(core.schedule(GangRequest(f"slice{number}", "speech", ((1, 1),))), Bind)
        core.commit(f"slice{number}")
    for number in range(4):
        request = GangRequest(f"gpu{number}", "speech", ((1, 7),), groups=WHOLE_GPU)
        assert [len(each) for each in gpus(core.schedule(request))] == [1]
        core.commit(f"gpu{number}")
    assert isinstance(core.schedule(GangRequest("node", "vision", ((1, 56),))), Bind)
    core.commit("node")
    assert audit(core.cluster) == []
    used = {record.request.id: gpus_of(core, record.request.id) for record in core.cluster.gangs.values()}
    assert len({gpu for name, found in used.items() if name.startswith("slice") for gpu in found}) <= 4


def gpus_of(core: Hived, gang: str) -> set[tuple[str, int]]:
    return {(spot.node, device // 7) for spot in core.spots_held(gang) for device in spot.devices}


def test_a_whole_gpu_is_taken_back_from_slices_without_a_guarantee() -> None:
    core = core_of(SLICES)
    for number in range(112):
        assert isinstance(core.schedule(GangRequest(f"guest{number}", "vision", ((1, 1),), -1, "A100-SLICE")), Bind)
        core.commit(f"guest{number}")
    decision = core.schedule(GangRequest("gpu", "speech", ((1, 7),), groups=WHOLE_GPU))
    assert isinstance(decision, Preempt)
    assert len(decision.victims) == 7
    assert [len(each) for each in gpus(decision)] == [1]


def test_a_bad_slice_leaves_the_rest_of_its_gpu() -> None:
    core = core_of(SLICES)
    core.set_nodes({"a0": NodeHealth(bad_devices=frozenset({3})), "a1": NodeHealth(False)})
    request = GangRequest("six", "speech", ((1, 6),), groups=WHOLE_GPU)
    assert isinstance(core.schedule(request), Bind)
    assert not isinstance(core.schedule(GangRequest("node", "vision", ((8, 7),))), Bind)


def test_a_job_gets_slices_by_their_sku_and_a_gpu_by_its_cell() -> None:
    scheduler = HivedScheduler(read_config(SLICES))
    for name in ("a0", "a1"):
        scheduler.set_node(Node(name, 112, 56 * 10 * 1024, 56))
    scheduler.set_node(Node("v0", 32, 8 * 50 * 1024, 8))
    scheduler.add(Gang("slice", (Ask(1, 1024, 1),), "speech", sku_type="A100-SLICE"))
    scheduler.add(Gang("gpu", (Ask(1, 1024, 7),), "speech", groups=(Group((0,), "A100-SLICE", cell_types=("A100",)),)))
    placed = {each.gang: each for each in scheduler.decide(0, 10) if isinstance(each, Place)}
    assert [len(placed[name].spots[0].devices) for name in ("slice", "gpu")] == [1, 7]
    assert len({device // 7 for device in placed["gpu"].spots[0].devices}) == 1
    for place in placed.values():
        placement_hint = read_hint(scheduler.cluster, place.spots[0])
        assert placement_hint is not None
        assert placement_hint[1] == place.spots[0].devices
        assert len(place.spots[0].placement_hint) < 255
