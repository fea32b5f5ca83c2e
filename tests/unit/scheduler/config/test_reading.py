"""A configuration is read as it is; every fault is refused with the key it sits at and the cure."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, GangRequest
from openpai.scheduler.config.arrangement import guarantees_in
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


def changed(key: str, value: Any) -> str:
    """Return GOOD with the value at one key, such as `a.b[0].c`, or without it where the value is ..."""
    *path, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", key)]
    document = yaml.load(GOOD, Loader=yaml.BaseLoader)
    at: Any = document
    for part in path:
        at = at[part]
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
    text = changed("virtualClusters.team", {"order": "shortest", "interruptible": True, "moveJobs": True})
    spec = read_config(text).virtual_clusters["team"]
    assert (spec.order, spec.is_interruptible, spec.moves_jobs) == (Order.SHORTEST, True, True)
    spec = read_config(GOOD).virtual_clusters["team"]
    assert (spec.order, spec.is_interruptible) == (None, False)
    changed_config = with_promise(guarantees_in({"hived": text}), "team", "1 nodes").config
    assert changed_config is not None
    spec = changed_config.virtual_clusters["team"]
    assert (spec.order, spec.is_interruptible, spec.moves_jobs, len(spec.quota)) == (Order.SHORTEST, True, True, 1)
    found = faults(changed("virtualClusters.team", {"order": "shortes", "interruptible": "perhaps"}))
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


# A key, what it is set to, the message and the cure; where the fault is reported, if at another key.
FAULTY: list[tuple[Any, ...]] = [
    ("virtualClusters.team.pinnedCell", [], "unknown key", "did you mean 'pinnedCells'"),
    ("virtualClusters.default.virtualCells[0].pinnedCellId", "mine", "unknown key", "move it to where it belongs"),
    (
        "physicalCluster.physicalCells[1].cellType",
        "K80-NODES",
        "there is no cell type 'K80-NODES'",
        "did you mean 'K80-NODE'",
    ),
    (
        "physicalCluster.physicalCells[1].cellType",
        "K80-SWITCH",
        "nor anything inside it is a node",
        "set isNodeLevel: true",
    ),
    (
        "physicalCluster.cellTypes.K80-NODE.isNodeLevel",
        "false",
        "nor anything inside it is a node",
        "set isNodeLevel: true",
        "physicalCluster.physicalCells[0].cellType",
    ),
    (
        "physicalCluster.cellTypes.K80-RACK.isNodeLevel",
        "true",
        "one inside another",
        "leave isNodeLevel: true at one of them",
        "physicalCluster.physicalCells[0].cellType",
    ),
    ("physicalCluster.physicalCells[1].cellAddress", ..., "missing", "name of the machine"),
    (
        "physicalCluster.physicalCells[0].cellChildren",
        [{"cellAddress": "n1", "pinnedCellId": "mine"}],
        "1 children are listed, but a K80-RACK has 2",
        "childCellNumber",
    ),
    (
        "physicalCluster.physicalCells[0].cellChildren[1].cellChildren[0].cellChildren",
        [{"cellAddress": "a"}, {"cellAddress": "7"}],
        "'a' of node 'n1' is not a whole number",
        "number the leaf cells",
        "physicalCluster.physicalCells[0].cellChildren[1].cellChildren",
    ),
    (
        "physicalCluster.physicalCells[1].cellAddress",
        "n1",
        "of node 'n1' is given twice",
        "to one cell",
        "physicalCluster.physicalCells[1]",
    ),
    ("physicalCluster.cellTypes.K80-SWITCH.childCellType", "K80-RACK", "cannot contain itself", "let the chain end"),
    ("virtualClusters.default.virtualCells[0].cellNumber", "-1", "-1 is too small", "0 or more"),
    (
        "virtualClusters.default.virtualCells[0].cellNumber",
        "two",
        "'two' is not a whole number",
        "write a whole number",
    ),
    ("physicalCluster.cellTypes.K80-RACK.childCellNumber", "0", "0 is too small", "1 or more"),
    (
        "virtualClusters.default.virtualCells[0].cellType",
        "V100-RACK.V100-NODE",
        "no physical cell has the type 'V100-RACK'",
        "begin with the type of a top cell",
    ),
    (
        "virtualClusters.default.virtualCells[0].cellType",
        "K80-RACK.K80-NOD",
        "there is no 'K80-NOD' inside a K80-RACK",
        "did you mean 'K80-NODE'",
    ),
    (
        "virtualClusters.team.pinnedCells",
        [{"pinnedCellId": "min"}],
        "no physical cell is pinned as 'min'",
        "did you mean 'mine'",
        "virtualClusters.team.pinnedCells[0].pinnedCellId",
    ),
    (
        "virtualClusters.default.pinnedCells",
        [{"pinnedCellId": "mine"}],
        "was given to default already",
        "to one virtual cluster",
        "virtualClusters.team.pinnedCells[0].pinnedCellId",
    ),
    (
        "physicalCluster.physicalCells[1].pinnedCellId",
        "mine",
        "'mine' is the name of another cell already",
        "choose another name",
    ),
    (
        "virtualClusters.default.virtualCells[0].cellNumber",
        "2",
        "chain K80-RACK has 2 K80-NODE cells",
        "lower a cellNumber or add physical cells",
        "virtualClusters",
    ),
    (
        "virtualClusters.default.virtualCells[0].cellType",
        "K80-RACK",
        "beside 1 pinned",
        "lower a cellNumber",
        "virtualClusters",
    ),
    ("physicalCluster.skuTypes.K80.memory", "much", "'much' is not an amount of memory", "as in 8192Mi"),
    ("physicalCluster.skuTypes.K80.memory", "9" * 400, "more memory than a machine has", "write less"),
    ("physicalCluster.skuTypes.K80.cpu", "4" + "0" * 30, "is too large", "2147483647 at most"),
    (
        "physicalCluster.cellTypes.K80-SWITCH.childCellNumber",
        "1000000000",
        "a K80-NODE has 2000000000 leaf cells, more than 1024",
        "look at the numbers in physicalCluster.cellTypes",
        "physicalCluster.physicalCells[0].cellType",
    ),
    (
        "physicalCluster.cellTypes.K80-RACK.childCellNumber",
        "1000000000",
        "more than 200000",
        "look at the numbers in physicalCluster.cellTypes",
        "physicalCluster.physicalCells[0].cellType",
    ),
    ("physicalCluster.physicalCells[1].pinnedCellId", "n\0", "an invisible character", "remove it"),
    ("physicalCluster.physicalCells", ..., "there are no cells", "list the machines"),
]


@pytest.mark.parametrize(("key", "value", "message", "cure", "where"), [(*row, row[0])[:5] for row in FAULTY])
def test_a_fault_is_refused_with_its_key_and_its_cure(
    key: str, value: Any, message: str, cure: str, where: str
) -> None:
    found = dict(faults(changed(key, value)))
    assert message in found[where]
    assert cure in found[where]


@pytest.mark.parametrize("address", ["²", "9" * 5000])
def test_a_device_is_a_number(address: str) -> None:
    cells = [{"cellAddress": address}, {}, {}, {}]
    cluster = {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": "n1", "cellChildren": cells}],
    }
    assert "number the leaf cells from 0" in faults(yaml.safe_dump({"physicalCluster": cluster}))[0][1]


@pytest.mark.slow
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
