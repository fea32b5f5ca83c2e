"""The state is shown in the shapes the original shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openpai.scheduler.cells.inspection import affinity_groups, cluster_status, virtual_clusters

Make = Callable[..., Any]


def leaves(cell: dict[str, Any]) -> list[dict[str, Any]]:
    if "cellChildren" not in cell:
        return [cell]
    return [leaf for child in cell["cellChildren"] for leaf in leaves(child)]


def test_physical_cells_show_their_virtual_clusters_and_priorities(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK.NODE": 2}})
    driver.run("gang", "a", 2, priority=7)
    driver.run("guest", "a", 1, priority=-1)
    driver.core.set_node("r0n1", bad_devices=[3])
    rack = cluster_status(driver.core.cluster)["physicalCluster"][0]
    assert (rack["leafCellType"], rack["cellType"], rack["cellAddress"]) == ("GPU", "RACK", "0")
    assert (rack["cellState"], rack["cellHealthiness"], rack["cellPriority"]) == ("Used", "Bad", 7)
    node, other = rack["cellChildren"]
    assert (node["isNodeLevel"], node["cellAddress"], node["vc"]) == (True, "0/r0n0", "a")
    assert node["virtualCell"]["cellAddress"] == "a/0"
    assert other["cellHealthiness"] == "Bad"
    states = {leaf["cellAddress"]: (leaf["cellState"], leaf["cellPriority"]) for leaf in leaves(rack)}
    assert states["0/r0n0/0/0"] == ("Used", 7)
    assert states["0/r0n0/1/2"] == ("Free", -2)
    assert [state for address, state in states.items() if address.startswith("0/r0n1")].count(("Used", -1)) == 1
    assert "leafCellType" not in node


def test_virtual_cells_show_what_is_served_and_what_is_borrowed(racks: Make) -> None:
    driver = racks(2, {"a": {"RACK": 1, "RACK.NODE": 1}}, pins={"r1n1": "a"})
    driver.run("gang", "a", 4)
    driver.run("guest", "a", 1, priority=-1)
    found = virtual_clusters(driver.core.cluster)["a"]
    assert [cell["cellAddress"] for cell in found][1:] == ["a/0", "a/1", "a/2"]
    assert found[0]["cellAddress"].endswith("-opp")
    assert found[0]["cellPriority"] == -1
    rack, node, pinned = found[1:]
    assert (rack["cellState"], "physicalCell" in rack) == ("Free", False)
    assert [leaf["cellAddress"] for leaf in leaves(rack)][-1] == "a/0/1/3/7"
    assert (node["cellState"], node["physicalCell"]["cellAddress"]) == ("Used", "1/r1n0")
    assert (pinned["cellState"], pinned["physicalCell"]["cellAddress"]) == ("Free", "1/r1n1")


def test_affinity_groups_show_their_placement_and_state(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("low", "a", 4, 4)
    driver.threaten("high", "a", 2, priority=3)
    high, low = affinity_groups(driver.core.cluster)
    assert high["metadata"] == {"name": "high"}
    assert high["status"]["state"] == "Preempting"
    assert high["status"]["physicalPlacement"] == {"r0n0": [0, 1]}
    assert high["status"]["virtualPlacement"] == {"a/0": ["a/0/0/0/0", "a/0/0/0/1"]}
    assert low["status"]["state"] == "BeingPreempted"
    assert low["status"]["physicalPlacement"] == {"r0n0": [0, 1, 2, 3], "r0n1": [0, 1, 2, 3]}
    states = [leaf["cellState"] for leaf in leaves(cluster_status(driver.core.cluster)["physicalCluster"][0])]
    assert states == ["Reserving"] * 2 + ["Used"] * 6
    driver.end("low")
    states = [leaf["cellState"] for leaf in leaves(cluster_status(driver.core.cluster)["physicalCluster"][0])]
    assert states == ["Reserved"] * 2 + ["Free"] * 6
