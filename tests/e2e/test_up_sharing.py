"""`pai up` shares the cluster out as its command line says, and servers that only answer requests stand beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.server import Server, refused

HIVED = """
physicalCluster:
  cellTypes:
    GPU-NODE: {childCellType: GPU, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
  - {cellType: GPU-NODE, cellAddress: node-01}
  - {cellType: GPU-NODE, cellAddress: node-02}
virtualClusters:
  default: {virtualCells: [{cellType: GPU-NODE, cellNumber: 1}]}
  vision: {virtualCells: [{cellType: GPU-NODE.GPU, cellNumber: 3}]}
"""


def gpus(server: Server) -> dict[str, int]:
    found: dict[str, Any] = server.get("/virtual-clusters")
    return {name: each["resourcesTotal"]["gpu"] for name, each in found.items()}


def test_shares_are_set_at_the_start_and_stay(tmp_path: Path) -> None:
    server = Server.start(tmp_path, 0, "--backend", "simulated", "--share", "vision: 2 nodes, speech: 3 GPUs")
    assert gpus(server) == {"default": 13, "speech": 3, "vision": 16}
    assert server.get("/cluster/config")["version"] == 1
    assert server.end() == 0
    again = server.again()
    assert again.get("/cluster/config")["version"] == 1
    again.end()
    bare = Server.start(tmp_path, 0, "--backend", "simulated")
    assert gpus(bare) == {"default": 13, "speech": 3, "vision": 16}
    assert bare.http.put("/virtual-clusters/speech", json={"promise": "4 GPUs"}).status_code in (200, 201)
    assert gpus(bare) == {"default": 12, "speech": 4, "vision": 16}
    bare.end()
    assert "replace those that were set" not in bare.log()
    file = tmp_path / "cluster.yaml"
    file.write_text(HIVED)
    other = Server.start(tmp_path, 0, "--backend", "simulated", "--cluster", str(file))
    assert gpus(other) == {"default": 8, "vision": 3}
    config = other.get("/cluster/config")
    assert (config["version"], config["hived"]) == (3, HIVED)
    assert "replace those that were set while" in other.log()
    assert "node-03, node-04" in " ".join(config["problems"])
    other.end()


def test_what_cannot_be_promised_is_refused_with_every_fault(tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path / "data"), "--backend", "simulated")
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HIVED.replace("cellNumber: 3", "cellNumber: -3").replace("GPU-NODE, cellNumber: 1", "X, cellNumber: 1")
    )
    message = refused(*where, "--cluster", str(file), lines_max=4)
    assert "virtualClusters.default.virtualCells[0].cellType" in message
    assert "virtualClusters.vision.virtualCells[0].cellNumber" in message
    assert "cannot be read" in refused(*where, "--cluster", str(tmp_path / "nowhere.yaml"))
    assert "cannot be understood" in refused(*where, "--share", "vision: many")
    assert "one of them" in refused(*where, "--share", "a: 1 nodes", "--cluster", str(file))
    assert not (tmp_path / "data").exists()
    assert "vision wants 9 nodes" in refused(*where, "--share", "vision: 9 nodes")


def test_a_server_beside_it_answers_and_runs_nothing(tmp_path: Path) -> None:
    leader = Server.start(tmp_path, 0, "--backend", "process")
    try:
        beside = Server.start(tmp_path / "beside", 0, "--data-dir", str(tmp_path / "data"), "--api-only")
        assert beside.submit("beside", "echo hello from beside").status_code == 202
        assert beside.ended("beside") == "SUCCEEDED"
        place = "/jobs/admin~beside/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout"
        assert "hello from beside" in beside.http.get(place).text
        assert beside.end() == 0
        assert leader.submit("after", "true").status_code == 202
        assert leader.ended("after") == "SUCCEEDED"
    finally:
        leader.end()


def test_a_server_beside_nothing_is_refused(tmp_path: Path) -> None:
    message = refused("--data-dir", str(tmp_path / "nowhere"), "--api-only")
    assert "is not the data directory of a server" in message
    assert not (tmp_path / "nowhere").exists()
    assert "--api-only leaves the virtual clusters" in refused(
        "--data-dir", str(tmp_path), "--api-only", "--share", "a: 1 nodes"
    )
