"""A configuration is read as it is; every fault is refused with the key it sits at and the cure."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, GangRequest
from openpai.scheduler.config.editing import with_promise
from openpai.scheduler.config.model import InvalidConfig, QuotaSpec, SkuSpec
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Order

GOOD = """
kubeApiServerAddress: http://10.0.0.1:8080
physicalCluster:
  skuTypes:
    K80: {gpu: 1, cpu: 4, memory: 8192Mi}
  cellTypes:
    K80-SWITCH: {childCellType: K80, childCellNumber: 2}
    K80-NODE: {childCellType: K80-SWITCH, childCellNumber: 2, isNodeLevel: true}
    K80-RACK: {childCellType: K80-NODE, childCellNumber: 2}
  physicalCells:
  - cellType: K80-RACK
    cellChildren:
    - cellAddress: 10.20
    - cellAddress: n1
      pinnedCellId: mine
      cellChildren:
      - cellChildren: [{cellAddress: 6}, {cellAddress: 7}]
      - cellChildren: [{cellAddress: 2}, {cellAddress: 3}]
  - cellType: K80-NODE
    cellAddress: n2
virtualClusters:
  default:
    virtualCells:
    - {cellType: K80-RACK.K80-NODE, cellNumber: 1}
    - {cellType: K80-NODE, cellNumber: 0}
  team:
    pinnedCells:
    - pinnedCellId: mine
"""


def changed(*path_and_value: Any) -> str:
    """Return GOOD with one key set, or removed when the value is ..."""
    *path, last, value = path_and_value
    document = yaml.load(GOOD, Loader=yaml.BaseLoader)
    at: Any = document
    for key in path:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return yaml.safe_dump(document)


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidConfig) as caught:
        read_config(text)
    return [(fault.path, fault.describe()) for fault in caught.value.faults]


def test_a_good_file_is_read_as_it_is() -> None:
    config = read_config(GOOD)
    chain = config.chains["K80-RACK"]
    assert chain.types == ("K80", "K80-SWITCH", "K80-NODE", "K80-RACK")
    assert (chain.node_level, chain.tops, chain.leaves(4), chain.count(1)) == (3, 1, 8, 8)
    assert chain.nodes == ("10.20", "n1")
    assert chain.devices == ((0, 1, 2, 3), (6, 7, 2, 3))
    assert chain.upper == (("0/10.20", "0/n1"), ("0",))
    assert config.virtual_clusters["default"].quota == (QuotaSpec("K80-RACK", 3, 1), QuotaSpec("K80-NODE", 3, 0))
    assert config.virtual_clusters["team"].pinned == ("mine",)
    assert (config.pinned["mine"].level, config.pinned["mine"].index) == (3, 1)
    assert config.skus == {"K80": SkuSpec(1, 4, 8192)}


def test_a_virtual_cluster_says_its_order_and_whether_its_jobs_may_be_interrupted() -> None:
    text = changed("virtualClusters", "team", {"order": "shortest", "interruptible": True})
    spec = read_config(text).virtual_clusters["team"]
    assert (spec.order, spec.is_interruptible) == (Order.SHORTEST, True)
    spec = read_config(GOOD).virtual_clusters["team"]
    assert (spec.order, spec.is_interruptible) == (None, False)
    text = with_promise({"hived": text}, "team", "1 nodes")["hived"]
    spec = read_config(text).virtual_clusters["team"]
    assert (spec.order, spec.is_interruptible, len(spec.quota)) == (Order.SHORTEST, True, 1)
    found = faults(changed("virtualClusters", "team", {"order": "shortes", "interruptible": "perhaps"}))
    assert [path for path, _ in found] == ["virtualClusters.team.interruptible", "virtualClusters.team.order"]
    assert "shortest" in found[1][1]


def test_a_chain_without_promises_is_a_warning_and_serves_opportunistic_gangs() -> None:
    config = read_config(GOOD)
    assert ["K80-NODE" in message for message in config.warnings] == [True]
    decision = Hived(Cluster(config)).schedule(GangRequest("g", "default", ((1, 4),), -1))
    assert isinstance(decision, Bind)


def test_a_cluster_without_virtual_clusters_is_fine() -> None:
    assert read_config(changed("virtualClusters", ...)).virtual_clusters == {}


def test_default_addresses_above_the_node_go_on_counting_over_top_cells() -> None:
    document = yaml.load(GOOD, Loader=yaml.BaseLoader)
    types = document["physicalCluster"]["cellTypes"]
    types["ROW"] = {"childCellType": "K80-RACK", "childCellNumber": "1"}
    rack = {"cellChildren": [{"cellAddress": "m0"}, {"cellAddress": "m1"}]}
    document["physicalCluster"]["physicalCells"] += [{"cellType": "ROW", "cellChildren": [rack]}]
    assert read_config(yaml.safe_dump(document)).chains["ROW"].upper == (("2/2/m0", "2/2/m1"), ("2/2",), ("2",))


FAULTY = {
    "an unknown key": (
        changed("virtualClusters", "team", "pinnedCell", []),
        "virtualClusters.team.pinnedCell",
        "unknown key",
        "did you mean 'pinnedCells'",
    ),
    "a pinned cell in the wrong place": (
        changed("virtualClusters", "default", "virtualCells", 0, "pinnedCellId", "mine"),
        "virtualClusters.default.virtualCells[0].pinnedCellId",
        "unknown key",
        "move it to where it belongs",
    ),
    "an unknown top type": (
        changed("physicalCluster", "physicalCells", 1, "cellType", "K80-NODES"),
        "physicalCluster.physicalCells[1].cellType",
        "there is no cell type 'K80-NODES'",
        "did you mean 'K80-NODE'",
    ),
    "a top cell below the node": (
        changed("physicalCluster", "physicalCells", 1, "cellType", "K80-SWITCH"),
        "physicalCluster.physicalCells[1].cellType",
        "nor anything inside it is a node",
        "set isNodeLevel: true",
    ),
    "no node level": (
        changed("physicalCluster", "cellTypes", "K80-NODE", "isNodeLevel", "false"),
        "physicalCluster.physicalCells[0].cellType",
        "nor anything inside it is a node",
        "set isNodeLevel: true",
    ),
    "two node levels": (
        changed("physicalCluster", "cellTypes", "K80-RACK", "isNodeLevel", "true"),
        "physicalCluster.physicalCells[0].cellType",
        "one inside another",
        "leave isNodeLevel: true at one of them",
    ),
    "a node without a name": (
        changed("physicalCluster", "physicalCells", 1, "cellAddress", ...),
        "physicalCluster.physicalCells[1].cellAddress",
        "missing",
        "name of the machine",
    ),
    "the wrong number of children": (
        changed("physicalCluster", "physicalCells", 0, "cellChildren", [{"cellAddress": "n1", "pinnedCellId": "mine"}]),
        "physicalCluster.physicalCells[0].cellChildren",
        "1 children are listed, but a K80-RACK has 2",
        "childCellNumber",
    ),
    "a device that is no number": (
        changed("physicalCluster", "physicalCells", 0, "cellChildren", 1, "cellChildren", 0, "cellChildren",
                [{"cellAddress": "a"}, {"cellAddress": "7"}]),
        "physicalCluster.physicalCells[0].cellChildren[1].cellChildren",
        "'a' of node 'n1' is not a whole number",
        "number the leaf cells",
    ),
    "one machine given twice": (
        changed("physicalCluster", "physicalCells", 1, "cellAddress", "n1"),
        "physicalCluster.physicalCells[1]",
        "of node 'n1' is given twice",
        "to one cell",
    ),
    "cells inside themselves": (
        changed("physicalCluster", "cellTypes", "K80-SWITCH", "childCellType", "K80-RACK"),
        "physicalCluster.cellTypes.K80-SWITCH.childCellType",
        "cannot contain itself",
        "let the chain end",
    ),
    "a negative number of cells": (
        changed("virtualClusters", "default", "virtualCells", 0, "cellNumber", "-1"),
        "virtualClusters.default.virtualCells[0].cellNumber",
        "-1 is too small",
        "0 or more",
    ),
    "a number of cells that is none": (
        changed("virtualClusters", "default", "virtualCells", 0, "cellNumber", "two"),
        "virtualClusters.default.virtualCells[0].cellNumber",
        "'two' is not a whole number",
        "write a whole number",
    ),
    "no children": (
        changed("physicalCluster", "cellTypes", "K80-RACK", "childCellNumber", "0"),
        "physicalCluster.cellTypes.K80-RACK.childCellNumber",
        "0 is too small",
        "1 or more",
    ),
    "a chain there is not": (
        changed("virtualClusters", "default", "virtualCells", 0, "cellType", "V100-RACK.V100-NODE"),
        "virtualClusters.default.virtualCells[0].cellType",
        "no physical cell has the type 'V100-RACK'",
        "begin with the type of a top cell",
    ),
    "a type not in the chain": (
        changed("virtualClusters", "default", "virtualCells", 0, "cellType", "K80-RACK.K80-NOD"),
        "virtualClusters.default.virtualCells[0].cellType",
        "there is no 'K80-NOD' inside a K80-RACK",
        "did you mean 'K80-NODE'",
    ),
    "a pinned cell there is not": (
        changed("virtualClusters", "team", "pinnedCells", [{"pinnedCellId": "min"}]),
        "virtualClusters.team.pinnedCells[0].pinnedCellId",
        "no physical cell is pinned as 'min'",
        "did you mean 'mine'",
    ),
    "a pinned cell given twice": (
        changed("virtualClusters", "default", "pinnedCells", [{"pinnedCellId": "mine"}]),
        "virtualClusters.team.pinnedCells[0].pinnedCellId",
        "was given to default already",
        "to one virtual cluster",
    ),
    "one name for two pinned cells": (
        changed("physicalCluster", "physicalCells", 1, "pinnedCellId", "mine"),
        "physicalCluster.physicalCells[1].pinnedCellId",
        "'mine' is the name of another cell already",
        "choose another name",
    ),
    "too much promised": (
        changed("virtualClusters", "default", "virtualCells", 0, "cellNumber", "2"),
        "virtualClusters",
        "chain K80-RACK has 2 K80-NODE cells",
        "lower a cellNumber or add physical cells",
    ),
    "a whole rack promised where a node of it is pinned": (
        changed("virtualClusters", "default", "virtualCells", 0, "cellType", "K80-RACK"),
        "virtualClusters",
        "beside 1 pinned",
        "lower a cellNumber",
    ),
    "memory without sense": (
        changed("physicalCluster", "skuTypes", "K80", "memory", "much"),
        "physicalCluster.skuTypes.K80.memory",
        "'much' is not an amount of memory",
        "as in 8192Mi",
    ),
    "more memory than a number of the machine's holds": (
        changed("physicalCluster", "skuTypes", "K80", "memory", "9" * 400),
        "physicalCluster.skuTypes.K80.memory",
        "more memory than a machine has",
        "write less",
    ),
    "a number with zeros too many": (
        changed("physicalCluster", "skuTypes", "K80", "cpu", "4" + "0" * 30),
        "physicalCluster.skuTypes.K80.cpu",
        "is too large",
        "2147483647 at most",
    ),
    "more devices than a machine has": (
        changed("physicalCluster", "cellTypes", "K80-SWITCH", "childCellNumber", "1000000000"),
        "physicalCluster.physicalCells[0].cellType",
        "a K80-NODE has 2000000000 leaf cells, more than 1024",
        "look at the numbers in physicalCluster.cellTypes",
    ),
    "more machines than anybody has": (
        changed("physicalCluster", "cellTypes", "K80-RACK", "childCellNumber", "1000000000"),
        "physicalCluster.physicalCells[0].cellType",
        "more than 200000",
        "look at the numbers in physicalCluster.cellTypes",
    ),
    "a name that cannot be seen": (
        changed("physicalCluster", "physicalCells", 1, "pinnedCellId", "n\0"),
        "physicalCluster.physicalCells[1].pinnedCellId",
        "an invisible character",
        "remove it",
    ),
    "no cells": (
        changed("physicalCluster", "physicalCells", ...),
        "physicalCluster.physicalCells",
        "there are no cells",
        "list the machines",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_refused_with_its_key_and_its_cure(name: str) -> None:
    text, path, message, cure = FAULTY[name]
    found = dict(faults(text))
    assert path in found
    assert message in found[path]
    assert cure in found[path]


@pytest.mark.parametrize("address", ["²", "9" * 5000])
def test_a_device_is_a_number(address: str) -> None:
    cells = [{"cellAddress": address}, {}, {}, {}]
    cluster = {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": "n1", "cellChildren": cells}],
    }
    assert "number the leaf cells from 0" in faults(yaml.safe_dump({"physicalCluster": cluster}))[0][1]


def test_types_one_inside_another_have_an_end() -> None:
    def of(number: int) -> str:
        types = {f"T{level}": {"childCellType": f"T{level + 1}", "childCellNumber": 1} for level in range(number)}
        types["T0"]["isNodeLevel"] = True
        cells = [{"cellType": "T0", "cellAddress": "n1"}]
        return yaml.safe_dump({"physicalCluster": {"cellTypes": types, "physicalCells": cells}})

    assert read_config(of(20)).chains["T0"].top == 21
    assert "one inside another, more than 32" in faults(of(900))[0][1]
    assert "more than 1000" in faults(of(1001))[0][1]


def test_of_thousands_of_faults_the_first_are_reported_and_none_at_length() -> None:
    cluster = {"cellTypes": {"T" * 100_000: {"colour": "blue"}}} | {f"key-{number}": "1" for number in range(5000)}
    found = faults(yaml.safe_dump({"physicalCluster": cluster}))
    assert found[-1][1] == "and more faults, which are listed once these are corrected"
    assert (len(found), len("".join(message for _, message in found)) < 100_000) == (101, True)


def test_all_faults_are_reported_at_once() -> None:
    document = yaml.load(GOOD, Loader=yaml.BaseLoader)
    document["virtualClusters"]["default"]["virtualCells"][0]["cellNumber"] = "-1"
    document["physicalCluster"]["physicalCells"][1]["pinnedCellId"] = "mine"
    document["colour"] = "blue"
    assert len(faults(yaml.safe_dump(document))) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "not YAML"),
        ("physicalCluster: {}\nphysicalCluster: {}", "given twice"),
        ('{"physicalCluster": {}, "physicalCluster": {}}', "given twice"),
        ("", "missing"),
        ("- 1", "should be a mapping"),
        ("- " * 5000, "nested too deeply"),
        ('{"a":' * 5000, "nested too deeply"),
        ("? [a, b]\n: 1", "keys are words"),
        ("? {a: b}\n: 1", "keys are words"),
        ("a: 1\n<<: text", "line 1: << takes a mapping"),
    ],
)
def test_text_that_is_no_configuration_is_refused(text: str, message: str) -> None:
    assert message in faults(text)[0][1]


def test_one_machine_may_have_devices_of_two_types() -> None:
    document = yaml.load(GOOD, Loader=yaml.BaseLoader)
    types = document["physicalCluster"]["cellTypes"]
    types["CPU-NODE"] = {"childCellType": "CPU", "childCellNumber": "2", "isNodeLevel": "true"}
    document["physicalCluster"]["physicalCells"].append({"cellType": "CPU-NODE", "cellAddress": "n2"})
    assert set(read_config(yaml.safe_dump(document)).chains) == {"K80-RACK", "K80-NODE", "CPU-NODE"}


@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 100_000, "x: " + "{a: " * 50_000], ids=["[", "-", "{"])
def test_yaml_that_is_nested_too_deeply_is_refused_and_crashes_no_process(text: str) -> None:
    with pytest.raises(InvalidConfig, match="nested too deeply"):
        read_config(text)
