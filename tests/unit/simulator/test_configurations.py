"""Configurations are changed and taken apart without a promise getting lost."""

from __future__ import annotations

import json

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.reading import read_config
from openpai.simulator.anomaly import private_config
from openpai.simulator.cluster import generated, nodes_of, quotas_of, whole_shares
from openpai.simulator.simulate import matched, simulate
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.whatif import changed, parse_what_if
from tests.unit.simulator.clusters import cluster, job, trace

SKUS = json.dumps(
    {
        "physicalCluster": {
            "skuTypes": {"DUO": {"gpu": 2, "cpu": 10, "memory": "64Gi"}},
            "cellTypes": {"NODE": {"childCellType": "DUO", "childCellNumber": 2, "isNodeLevel": True}},
            "physicalCells": [{"cellType": "NODE", "cellAddress": f"n{at}"} for at in range(3)],
        },
        "virtualClusters": {
            "a": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}, {"cellType": "NODE.DUO", "cellNumber": 1}]},
            "b": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]},
        },
    }
)


def start_of(config: HivedConfig, gpus: int, absent: frozenset[str] = frozenset(), vc: str = "a") -> bool:
    """Return whether a job of so many GPUs can run."""
    return not simulate(config, trace(job("it", 0, 1, gpus, vc)), "x", absent=absent).total.refused


def test_nodes_and_promises_count_in_gpus() -> None:
    config = read_config(SKUS)
    assert [(node.gpus, node.cpus) for node in nodes_of(config)] == [(4, 20)] * 3
    assert quotas_of(config) == {"a": 6, "b": 4}


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 8), (7, 1), (45, 8), (64, 4), (279, 8), (16, 3)])
def test_a_made_cluster_is_promised_to_the_last_gpu(nodes: int, gpus: int) -> None:
    config = generated(nodes, {"a": 0.6, "b": 0.3, "c": 0.1}, gpus)
    assert len(nodes_of(config)) == nodes
    assert sum(quotas_of(config).values()) == nodes * gpus


def test_shares_are_whole_and_complete() -> None:
    assert whole_shares(10, [1, 1, 1]) == [4, 3, 3]
    assert whole_shares(3, [5, 0, 1]) == [3, 0, 0]


def test_more_gpus_come_first_from_what_is_not_promised() -> None:
    lessened = changed(cluster(8, a=1, b=1), {"b": -8})
    assert quotas_of(lessened.config) == {"a": 32, "b": 24}
    given = changed(lessened.config, {"a": 8})
    assert quotas_of(given.config) == {"a": 40, "b": 24}
    assert len(nodes_of(given.config)) == 8
    assert not given.absent
    assert start_of(given.config, 40)


def test_more_gpus_come_then_from_new_nodes() -> None:
    before = cluster(8, a=1, b=1)
    assert not start_of(before, 40)
    after = changed(before, {"a": 8})
    nodes = [node for node in nodes_of(after.config) if node.name not in after.absent]
    assert len(nodes) == 9
    assert quotas_of(after.config) == {"a": 40, "b": 32}
    assert start_of(after.config, 40, after.absent)
    assert start_of(after.config, 32, after.absent, "b")


def test_less_for_one_is_more_for_another_and_large_cells_are_cut() -> None:
    # Each has sixteen nodes: half of them in one rack.
    after = changed(generated(32, {"a": 1, "b": 1}), {"a": 72, "b": -72})
    assert quotas_of(after.config) == {"a": 200, "b": 56}
    assert not after.absent
    assert start_of(after.config, 200)
    assert start_of(after.config, 56, vc="b")


def test_parts_of_nodes_and_skus_of_several_gpus_can_move() -> None:
    after = changed(read_config(SKUS), {"a": -2, "b": 2})
    assert quotas_of(after.config) == {"a": 4, "b": 6}
    with pytest.raises(Refused, match="no multiple"):
        changed(read_config(SKUS), {"a": 3})


def test_where_there_are_several_kinds_the_kind_is_reported() -> None:
    document = json.loads(SKUS)
    physical = document["physicalCluster"]
    physical["skuTypes"]["MONO"] = {"gpu": 1, "cpu": 5, "memory": "32Gi"}
    physical["cellTypes"]["BOX"] = {"childCellType": "MONO", "childCellNumber": 4, "isNodeLevel": True}
    physical["physicalCells"].append({"cellType": "BOX", "cellAddress": "m0"})
    document["virtualClusters"]["b"] = {"virtualCells": [{"cellType": "BOX", "cellNumber": 1}]}
    assert changed(read_config(json.dumps(document)), {"a": 2, "b": -2}).notes == (
        "b has 2 GPUs of MONO less",
        "a has 2 GPUs of DUO more that were not promised",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "^'a' is no change of a virtual cluster"),
        ("a=lots", "^'a=lots' is no change of a virtual cluster"),
        ("=8", "^'=8' is no change of a virtual cluster"),
        ("z=8", "^the configuration has no virtual cluster 'z'"),
        ("a=-800", "^a does not have 800 GPUs"),
    ],
)
def test_a_senseless_what_if_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        changed(cluster(8, a=1, b=1), parse_what_if([text]))


def test_what_ifs_add_up() -> None:
    assert parse_what_if(["a=+8, b=-8", "a=4"]) == {"a": 12, "b": -8}


def test_pinned_cells_are_only_for_gangs_that_name_them() -> None:
    document = json.loads(SKUS)
    document["physicalCluster"]["physicalCells"].append({"cellType": "NODE", "cellAddress": "n3", "pinnedCellId": "p"})
    document["virtualClusters"]["b"]["pinnedCells"] = [{"pinnedCellId": "p"}]
    config = read_config(json.dumps(document))
    assert quotas_of(config) == {"a": 6, "b": 4}
    assert quotas_of(private_config(config, "b")) == {"b": 4}
    assert not start_of(config, 8, vc="b")
    assert not start_of(private_config(config, "b"), 8, vc="b")


def test_clusters_that_can_run_nothing_are_refused() -> None:
    document = json.loads(SKUS)
    document["physicalCluster"]["skuTypes"]["DUO"]["gpu"] = 0
    with pytest.raises(Refused, match="has no GPUs"):
        simulate(read_config(json.dumps(document)), trace(job("it", 0, 1, 1)), "x")
    document["virtualClusters"] = {}
    with pytest.raises(Refused, match="no virtual clusters"):
        matched(trace(job("it", 0, 1, 1)), read_config(json.dumps(document)))
    with pytest.raises(Refused, match="none can be given jobs"):
        generate(SyntheticSpec(), {"a": 0})


def test_a_private_cluster_has_what_was_promised() -> None:
    config = read_config(SKUS)
    private = private_config(config, "a")
    assert quotas_of(private) == {"a": 6}
    assert sorted(node.gpus for node in nodes_of(private)) == [2, 4]
    assert start_of(private, 4)
    large = generated(32, {"a": 1, "b": 1})
    assert quotas_of(private_config(large, "b")) == {"b": 128}
    assert start_of(private_config(large, "b"), 128, vc="b")
