"""What people read whose job is larger than anything there is: in CPUs, memory and GPUs, and what would make it fit."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Ask, Gang, Node, Refusal, Topology
from openpai.scheduler.queue.scheduler import HivedScheduler

CONFIG = """
physicalCluster:
  cellTypes:
    V100-PAIR: {childCellType: V100, childCellNumber: 2}
    V100-NODE: {childCellType: V100-PAIR, childCellNumber: 2, isNodeLevel: true}
    CPU-NODE: {childCellType: CPU, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
  - {cellType: V100-NODE, cellAddress: n0}
  - {cellType: V100-NODE, cellAddress: n1}
  - {cellType: V100-NODE, cellAddress: n2}
  - {cellType: CPU-NODE, cellAddress: c0}
  - {cellType: CPU-NODE, cellAddress: c1}
virtualClusters:
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  vision: {virtualCells: [{cellType: V100-NODE, cellNumber: 2}]}
  speech: {virtualCells: [{cellType: V100-NODE.V100-PAIR, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]}
  poor: {}
"""
SMALL = Ask(1, 1024, 0)
GPU = Ask(4, 8192, 1)


@pytest.fixture
def scheduler() -> HivedScheduler:
    made = HivedScheduler(read_config(CONFIG))
    for name in ("n0", "n1", "n2"):
        made.set_node(Node(name, 32, 131072, 4))
    for name in ("c0", "c1"):
        made.set_node(Node(name, 8, 24576, 0))
    return made


def gang(ask: Ask, count: int, vc: str = "default", **more: Any) -> Gang:
    return Gang("g", (ask,) * count, vc, **more)


ALONE = "let its tasks start one by one (`extras: {gangAllocation: false}`)"


@pytest.mark.parametrize(
    ("promise", "message", "remedy"),
    [
        (
            gang(SMALL, 100),
            "its 100 tasks need 100 CPUs and 100 GB of memory; virtual cluster default has 8 CPUs and 24 GB of memory",
            f"ask for fewer or smaller tasks or {ALONE}",
        ),
        (
            gang(Ask(1, 99_999_999, 0), 1),
            (
                "a task asks for 97656.2 GB of memory; virtual cluster default has at most 8 CPUs and 24 GB of memory "
                "on one node"
            ),
            "ask for less in each task",
        ),
        (
            gang(Ask(1, 1024, 999), 1),
            "a task asks for 999 GPUs, and no node of virtual cluster default has any",
            "ask for no GPU",
        ),
        (
            gang(GPU, 1),
            "a task asks for 1 GPU, and no node of virtual cluster default has any",
            "ask for no GPU or submit it to virtual cluster speech or vision",
        ),
        (
            gang(Ask(1, 1024, 3), 1, "speech"),
            (
                "a task asks for 3 GPUs; "
                "virtual cluster speech has at most 16 CPUs, 64 GB of memory and 2 GPUs on one node"
            ),
            "ask for less in each task or submit it to virtual cluster vision",
        ),
        (
            gang(GPU, 9, "vision"),
            "its 9 tasks need 9 GPUs; virtual cluster vision has 64 CPUs, 256 GB of memory and 8 GPUs",
            f"ask for fewer or smaller tasks or {ALONE}",
        ),
        (
            # Each takes 3 of the 8 equal parts of a node for its memory, though the sums would fit.
            gang(Ask(1, 6500, 0), 3),
            (
                "its 3 tasks need 9 CPUs (a task asks for 1 CPU and 6.3 GB of memory, and 1 CPU comes with 3 GB of "
                "memory); virtual cluster default has 8 CPUs and 24 GB of memory"
            ),
            f"ask for fewer or smaller tasks, {ALONE} or submit it to virtual cluster vision",
        ),
        (
            gang(Ask(1, 1024, 3), 3, "vision", sku_type="V100"),
            "its 3 tasks need 9 GPUs; virtual cluster vision has 64 CPUs, 256 GB of memory and 8 GPUs",
            f"ask for fewer or smaller tasks or {ALONE}",
        ),
        (
            gang(Ask(1, 1024, 3), 2, "speech", priority=-1, sku_type="V100"),
            None,
            "",
        ),
        (
            gang(Ask(1, 1024, 3), 4, "speech", priority=-1, sku_type="V100"),
            (
                "of its 4 tasks at most 3 tasks of 1 CPU, 1 GB of memory and 3 GPUs fit on the nodes of the cluster "
                "at a time; a node has 32 CPUs, 128 GB of memory and 4 GPUs"
            ),
            f"ask for fewer or smaller tasks or {ALONE}",
        ),
        (
            gang(GPU, 6, "vision", topology=Topology("V100-NODE", True)),
            "its 6 tasks need 6 GPUs (V100) inside one V100-NODE, which is smaller",
            f"ask for fewer or smaller tasks or {ALONE}",
        ),
        (
            gang(SMALL, 1, "poor"),
            "virtual cluster 'poor' was promised nothing: only opportunistic jobs run in it",
            "ask for less or submit it to virtual cluster default, speech or vision",
        ),
        (gang(SMALL, 1, "none"), "there is no virtual cluster 'none'; there are default, poor, speech, vision", None),
    ],
)
def test_what_is_too_large(scheduler: HivedScheduler, promise: Gang, message: str | None, remedy: str | None) -> None:
    refused = scheduler.refusal(promise)
    if message is None:
        assert refused is None
        return
    assert refused is not None
    assert refused.message == message
    assert remedy is None or refused.remedy == remedy


def test_only_virtual_clusters_that_may_be_used_are_recommended(scheduler: HivedScheduler) -> None:
    assert (
        "or submit it to virtual cluster vision" in (scheduler.refusal(gang(GPU, 1), {"vision"}) or Refusal("")).remedy
    )
    assert "submit" not in (scheduler.refusal(gang(GPU, 1), set()) or Refusal("")).remedy


def test_the_same_words_say_why_it_waits(scheduler: HivedScheduler) -> None:
    promise = gang(SMALL, 100)
    scheduler.add(promise)
    scheduler.decide(0, 10)
    why, refused = scheduler.why("g"), scheduler.refusal(promise)
    assert why is not None
    assert refused is not None
    assert (why.message, why.unblock) == (refused.message, refused.remedy)


def test_no_other_virtual_cluster_is_recommended_where_it_is_not_known_who_asks(scheduler: HivedScheduler) -> None:
    promise = gang(GPU, 1)
    assert "submit it to virtual cluster speech" in (scheduler.refusal(promise) or Refusal("")).remedy
    scheduler.add(promise)
    scheduler.decide(0, 10)
    why = scheduler.why("g")
    assert why is not None
    assert why.unblock == "ask for no GPU"


def test_a_gang_that_waits_is_reported_why_it_takes_more_than_it_names(scheduler: HivedScheduler) -> None:
    scheduler.add(gang(SMALL, 1))
    scheduler.decide(0, 10)
    scheduler.commit("g")
    scheduler.add(Gang("h", (Ask(1, 24_000, 0),)))
    scheduler.decide(0, 10)
    why = scheduler.why("h")
    assert why is not None
    assert why.message == (
        "virtual cluster default uses 1 of its 8 CPUs; this needs 8 (a task asks for 1 CPU and 23.4 GB of memory, "
        "and 1 CPU comes with 3 GB of memory)"
    )
