"""Virtual clusters, nodes and estimates in the shapes that OpenPAI's clients know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.api.shapes.job_events import wait
from openpai.api.shapes.nodes import node_gpus
from openpai.api.shapes.virtual_clusters import NOTHING, virtual_clusters
from openpai.ports.platform import NodeView
from openpai.scheduler.interface import Amount, VcView
from openpai.scheduler.model import Estimate, Wait, Why

NODE = NodeView("n1", "", True, "", "", 8, 0, 64, 0, 8, 3, (), 1)


def vc(name: str, total: Amount, used: Amount = NOTHING) -> VcView:
    return VcView(name, total, total, used, Amount(), {}, 0, 0)


def test_capacities_are_shares_of_the_gpus_there_are() -> None:
    found = virtual_clusters([vc("b", Amount(1, 1, 24), Amount(gpus=6)), vc("default", Amount(99, 9, 8))])
    assert [(name, each["capacity"], each["usedCapacity"]) for name, each in found.items()] == [
        ("b", 75, 18.75),
        ("default", 25, 0),
    ]


def test_without_gpus_processors_are_shared() -> None:
    found = virtual_clusters([vc("b", Amount(30), Amount(15)), vc("default", Amount(10))])
    assert (found["b"]["capacity"], found["b"]["usedCapacity"]) == (75, 37.5)


def test_capacities_of_all_virtual_clusters_are_never_more_than_the_whole() -> None:
    full = [vc("a", Amount(gpus=1), Amount(gpus=1)), vc("b", Amount(gpus=7), Amount(gpus=7))]
    found = virtual_clusters(full).values()
    assert sum(each["usedCapacity"] for each in found) == 100
    assert all(each["usedCapacity"] <= each["maxCapacity"] == each["capacity"] for each in found)


def test_default_is_there_even_when_nothing_is() -> None:
    (found,) = virtual_clusters([]).values()
    assert (found["capacity"], found["usedCapacity"], found["resourcesTotal"]["gpu"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("node", "available"),
    [
        (NODE, 5),
        (replace(NODE, bad_devices=(1, 2)), 3),
        (replace(NODE, bad_devices=tuple(range(8))), 0),
        (replace(NODE, is_healthy=False), 0),
        (replace(NODE, is_drained=True), 0),
    ],
)
def test_gpus_that_no_job_can_get_are_not_available(node: NodeView, available: int) -> None:
    assert node_gpus(node) == {"gpuUsed": 3, "gpuAvailable": available, "gpuTotal": 8}


def test_a_reason_for_waiting_has_an_estimate_if_there_is_one() -> None:
    reason = Wait("g", Why.NOT_ENOUGH_FREE, "message")
    assert wait(reason)["estimate"] is None
    known = replace(reason, estimate=Estimate(1, None, "time limits"))
    times = {"earliestTime": 1, "latestTime": None, "basis": "time limits"}
    assert wait(known)["estimate"] == {**times, "judged": 0, "within": 0}
