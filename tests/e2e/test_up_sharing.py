"""`pai up` shares the cluster out as its command line says, and servers that only answer requests stand beside it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server import PAI, PASSWORD, Server

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
JOB = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: i, uri: busybox}}]
taskRoles:
  worker:
    instances: 1
    dockerImage: i
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ["echo hello from {name}"]
"""


@contextmanager
def entered(url: str) -> Iterator[httpx.Client]:
    """Give a client to the administrator."""
    with httpx.Client(base_url=f"{url}/api/v2", timeout=60) as http:
        login = http.post("/authn/basic/login", json={"username": "admin", "password": PASSWORD})
        http.headers["Authorization"] = f"Bearer {login.json()['token']}"
        yield http


def gpus(http: httpx.Client) -> dict[str, int]:
    found: dict[str, Any] = http.get("/virtual-clusters").json()
    return {name: each["resourcesTotal"]["gpu"] for name, each in found.items()}


def refused(*options: str) -> str:
    """Start a server that has to refuse; return what it said."""
    message = subprocess.run(
        [*PAI, "up", "--port", "0", *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert (message.returncode, message.stdout) == (2, ""), message
    assert "Traceback" not in message.stderr
    return message.stderr


def ended(http: httpx.Client, name: str) -> dict[str, Any]:
    """Return a job once it has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        job: dict[str, Any] = http.get(f"/jobs/admin~{name}").json()
        if job["jobStatus"]["state"] in ("SUCCEEDED", "FAILED", "STOPPED"):
            return job
        time.sleep(0.05)
    pytest.fail(f"job {name} did not end")


def test_shares_are_set_at_the_start_and_stay(tmp_path: Path) -> None:
    server = Server.start(tmp_path, 0, "--backend", "simulated", "--share", "vision: 2 nodes, speech: 3 GPUs")
    with entered(server.url) as http:
        assert gpus(http) == {"default": 13, "speech": 3, "vision": 16}
        assert http.get("/cluster/config").json()["version"] == 1
    assert server.end() == 0
    again = server.again()
    with entered(again.url) as http:
        assert http.get("/cluster/config").json()["version"] == 1
    again.end()
    bare = Server.start(tmp_path, 0, "--backend", "simulated")
    with entered(bare.url) as http:
        assert gpus(http) == {"default": 13, "speech": 3, "vision": 16}
        assert http.put("/virtual-clusters/speech", json={"promise": "4 GPUs"}).status_code in (200, 201)
        assert gpus(http) == {"default": 12, "speech": 4, "vision": 16}
    bare.end()
    assert "replace those that were set" not in (tmp_path / "server.log").read_text()
    file = tmp_path / "cluster.yaml"
    file.write_text(HIVED)
    other = Server.start(tmp_path, 0, "--backend", "simulated", "--cluster", str(file))
    with entered(other.url) as http:
        assert gpus(http) == {"default": 8, "vision": 3}
        config = http.get("/cluster/config").json()
        assert (config["version"], config["hived"]) == (3, HIVED)
        assert "replace those that were set while" in (tmp_path / "server.log").read_text()
        assert "node-03, node-04" in " ".join(config["problems"])
    other.end()


def test_what_cannot_be_promised_is_refused_with_every_fault(tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path / "data"), "--backend", "simulated")
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HIVED.replace("cellNumber: 3", "cellNumber: -3").replace("GPU-NODE, cellNumber: 1", "X, cellNumber: 1")
    )
    message = refused(*where, "--cluster", str(file))
    assert "virtualClusters.default.virtualCells[0].cellType" in message
    assert "virtualClusters.vision.virtualCells[0].cellNumber" in message
    assert "cannot be read" in refused(*where, "--cluster", str(tmp_path / "nowhere.yaml"))
    assert "cannot be understood" in refused(*where, "--share", "vision: many")
    assert "one of them" in refused(*where, "--share", "a: 1 nodes", "--cluster", str(file))
    assert not (tmp_path / "data").exists()
    assert "vision wants 9 nodes" in refused(*where, "--share", "vision: 9 nodes")


def test_a_server_beside_it_answers_and_runs_nothing(tmp_path: Path) -> None:
    leader = Server.start(tmp_path, 0, "--backend", "process")
    ready = tmp_path / "beside.json"
    options = ["--data-dir", str(tmp_path / "data"), "--port", "0", "--api-only", "--ready-file", str(ready)]
    with (tmp_path / "beside.log").open("ab") as log:
        beside = subprocess.Popen([*PAI, "up", *options], stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert beside.poll() is None, (tmp_path / "beside.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        url = httpx.Response(200, text=ready.read_text()).json()["url"]
        with entered(url) as http, entered(leader.url) as direct:
            answer = http.post("/jobs", content=JOB.format(name="beside"))
            assert answer.status_code == 202, answer.text
            assert ended(http, "beside")["jobStatus"]["state"] == "SUCCEEDED"
            place = "/jobs/admin~beside/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout"
            message = http.get(place).text
            assert "hello from beside" in message
            beside.terminate()
            assert beside.wait(60) == 0
            assert direct.post("/jobs", content=JOB.format(name="after")).status_code == 202
            assert ended(direct, "after")["jobStatus"]["state"] == "SUCCEEDED"
    finally:
        beside.kill()
        leader.end()


def test_a_server_beside_nothing_is_refused(tmp_path: Path) -> None:
    message = refused("--data-dir", str(tmp_path / "nowhere"), "--api-only")
    assert "is not the data directory of a server" in message
    assert not (tmp_path / "nowhere").exists()
    assert "--api-only leaves the virtual clusters" in refused(
        "--data-dir", str(tmp_path), "--api-only", "--share", "a: 1 nodes"
    )
