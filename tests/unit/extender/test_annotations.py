"""HiveD's annotations, as users, HiveD and old versions of both write them."""

from __future__ import annotations

import json

import pytest
import yaml

from openpai.extender.annotations import (
    BIND_INFO,
    ISOLATION,
    OLD_ISOLATION,
    PodSpec,
    read_bind_info,
    read_spec,
    write_annotations,
    write_group,
)
from openpai.extender.settings import host_and_port, read_settings
from openpai.protocol.errors import Refused
from openpai.scheduler.model import Spot
from tests.unit.extender.cluster import CONFIG

SPEC = """
virtualCluster: VC1
priority: 1000
pinnedCellId: null
leafCellType: DGX2-V100
leafCellNumber: 8
lazyPreemptionEnable: true
ignoreK8sSuggestedNodes: false
gangReleaseEnable: true
something: new
affinityGroup:
  name: JOBX/ABC
  members:
  - {podNumber: 1, leafCellNumber: 16}
  - {podNumber: 2, leafCellNumber: 8}
  - {podNumber: 1, leafCellNumber: 8}
"""
WRITTEN_BY_HIVED = """
node: n1
leafCellIsolation: [3, 1]
cellChain: RACK
affinityGroupBindInfo:
- podPlacements:
  - physicalNode: n0
    physicalLeafCellIndices: [0, 1, 2, 3]
    preassignedCellTypes: [NODE, NODE, NODE, NODE]
- podPlacements:
  - physicalNode: n1
    physicalLeafCellIndices:
    - 3
    - 1
    preassignedCellTypes:
    - NODE
    - NODE
  - physicalNode: n1
    physicalLeafCellIndices: [0, 2]
    preassignedCellTypes: ["", ""]
"""


def old(text: str) -> str:
    """Return an annotation in the words of HiveD before version 0.4."""
    words = {
        "physicalLeafCellIndices": "physicalGpuIndices",
        "leafCellIsolation": "gpuIsolation",
        "leafCellNumber": "gpuNumber",
        "leafCellType": "gpuType",
    }
    for new, before in words.items():
        text = text.replace(new, before)
    return text


@pytest.mark.parametrize("text", [SPEC, old(SPEC)], ids=["new words", "old words"])
def test_a_pod_asks_in_new_and_old_words(text: str) -> None:
    assert read_spec(text, "default/pod") == PodSpec(
        virtual_cluster="VC1",
        leaves=8,
        group="JOBX/ABC",
        members=((3, 8), (1, 16)),
        priority=1000,
        leaf_type="DGX2-V100",
        is_lazily_preemptible=True,
        ignores_suggested_nodes=False,
    )


def test_a_pod_without_a_group_is_one_of_its_own() -> None:
    found = read_spec("{virtualCluster: a, leafCellNumber: 2, leafCellType: '', affinityGroup: null}", "team/pod")
    assert found == PodSpec("a", 2, "team/pod", ((1, 2),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing or empty"),
        ("[", "not YAML"),
        ("[" * 200_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ('{"a":' * 40_000, "nested too deeply"),
        ("word", "not a mapping"),
        ("leafCellNumber: 1", "virtualCluster is empty"),
        ("virtualCluster: a", "leafCellNumber is not positive"),
        ("{virtualCluster: a, leafCellNumber: many}", "not a whole number: 'many'"),
        ("{virtualCluster: a, leafCellNumber: 99999999999999999999}", "not a whole number"),
        ("{virtualCluster: a, leafCellNumber: 1, priority: 1001}", "priority 1001"),
        ("{virtualCluster: a, leafCellNumber: 1, priority: -2}", "priority -2"),
        ("{virtualCluster: [a], leafCellNumber: 1}", "virtualCluster is not a word"),
        ("{virtualCluster: a, leafCellNumber: 1, affinityGroup: g}", "affinityGroup is not a mapping"),
        ("{virtualCluster: a, leafCellNumber: 1, affinityGroup: {name: g, members: 3}}", "no list"),
        ("{virtualCluster: a, leafCellNumber: 1, affinityGroup: {name: '', members: []}}", "affinityGroup.name"),
        (
            "{virtualCluster: a, leafCellNumber: 1, affinityGroup: {name: g, members: [{podNumber: 2, gpuNumber: 2}]}}",
            "no pods of 1 leaf cells",
        ),
        (
            "{virtualCluster: a, gpuNumber: 1, affinityGroup: {name: g, members: [{podNumber: 200000, gpuNumber: 1}]}}",
            "more than 10000 pods",
        ),
    ],
)
def test_what_hived_refuses_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read_spec(text, "default/pod")


@pytest.mark.parametrize("text", [WRITTEN_BY_HIVED, old(WRITTEN_BY_HIVED)], ids=["new words", "old words"])
def test_a_placement_of_hived_is_read(text: str) -> None:
    found = read_bind_info(text)
    assert (found.node, found.leaves, found.chain) == ("n1", (3, 1), "RACK")
    assert found.placements == (
        (Spot("n1", (3, 1)), "NODE"),
        (Spot("n1", (0, 2)), ""),
        (Spot("n0", (0, 1, 2, 3)), "NODE"),
    )
    assert found.members() == ((2, 2), (1, 4))


def test_a_placement_is_written_as_hived_reads_it() -> None:
    placements = [(Spot("n1", (3, 1)), "NODE"), (Spot("n1", (0, 2)), ""), (Spot("n0", (0, 1, 2, 3)), "NODE")]
    written = write_annotations(placements[0][0], "RACK", write_group(placements))
    assert (written[ISOLATION], written[OLD_ISOLATION]) == ("3,1", "3,1")
    by_size = yaml.safe_load(WRITTEN_BY_HIVED)
    by_size["affinityGroupBindInfo"].reverse()
    assert yaml.safe_load(written[BIND_INFO]) == by_size
    assert read_bind_info(written[BIND_INFO]) == read_bind_info(WRITTEN_BY_HIVED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node: n1",
        json.dumps({"node": "n1", "leafCellIsolation": [0], "affinityGroupBindInfo": []}),
        json.dumps({"node": "n1", "leafCellIsolation": ["x"], "affinityGroupBindInfo": []}),
        WRITTEN_BY_HIVED.replace("leafCellIsolation: [3, 1]", "leafCellIsolation: [3, 2]"),
        WRITTEN_BY_HIVED.replace("physicalNode: n0", "physicalNode: ''"),
    ],
)
def test_a_placement_that_is_not_complete_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="pod-bind-info"):
        read_bind_info(text)


def test_settings_of_hived_are_read_from_the_file_of_the_cells() -> None:
    found = read_settings(
        "webServerAddress: ':30096'\nforcePodBindThreshold: 7\nwaitingPodSchedulingBlockMilliSec: 50\n"
        "kubeApiServerAddress: https://api\nkubeConfigFilePath: /etc/kube\n" + CONFIG
    )
    assert (found.listen, found.force_bind_threshold, found.block_ms) == (("0.0.0.0", 30096), 7, 50)
    assert (found.api_server, found.kubeconfig) == ("https://api", "/etc/kube")
    assert read_settings(CONFIG).listen == ("0.0.0.0", 9096)
    assert host_and_port("[::1]:80") == ("::1", 80)
    for wrong in ("webServerAddress: here\n", "forcePodBindThreshold: often\n"):
        with pytest.raises(Refused):
            read_settings(wrong + CONFIG)
