"""A job on borrowed devices survives a killed server as a borrower, and gets its guarantee later where it runs."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import Server
from tests.e2e.test_up_sharing import entered

JOB = """
protocolVersion: 2
name: {name}
type: job
defaults: {{virtualCluster: vision}}
prerequisites: [{{type: dockerimage, name: i, uri: busybox}}]
taskRoles:
  worker:
    instances: 1
    dockerImage: i
    resourcePerInstance: {{cpu: 2, memoryMB: 64, gpu: 0}}
    commands: ["sleep 600"]
extras: {{hivedScheduler: {{interruptible: true}}}}
"""


def cpus(http: httpx.Client) -> tuple[int, int]:
    """Return how many CPUs jobs of the virtual cluster use of its own and borrow from others."""
    vision = http.get("/virtual-clusters").json()["vision"]
    return vision["resourcesUsed"]["cpu"], vision["resourcesBorrowed"]["cpu"]


def until(http: httpx.Client, wanted: tuple[int, int], running: str = "") -> None:
    """Wait until the virtual cluster uses and borrows so many CPUs, and a job runs."""
    deadline = time.monotonic() + 60
    while (found := cpus(http)) != wanted or (running and attempts(http, running)[0] != "RUNNING"):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def attempts(http: httpx.Client, name: str) -> tuple[str, int]:
    """Return the state of a job and how often it was retried."""
    status = http.get(f"/jobs/admin~{name}").json()["jobStatus"]
    return status["state"], status["retries"]


@pytest.mark.slow
def test_a_borrower_is_one_after_its_server_was_killed(tmp_path: Path) -> None:
    shares = ("--backend", "process", "--cpus-per-node", "2", "--share", "vision: 1 node")
    server = Server.start(tmp_path, 0, *shares)
    try:
        with entered(server.url) as http:
            for name, wanted in (("own", (2, 0)), ("borrows", (2, 2))):
                assert http.post("/jobs", content=JOB.format(name=name)).status_code == 202
                # A task that has not started when its server dies may be started again.
                until(http, wanted, running=name)
        server.end(signal.SIGKILL)
        server = server.again()
        with entered(server.url) as http:
            until(http, (2, 2))
            assert http.put("/jobs/admin~own/executionType", json={"value": "STOP"}).status_code == 202
            until(http, (2, 0))
            assert attempts(http, "borrows") == ("RUNNING", 0)
        server.end(signal.SIGKILL)
        server = server.again()
        with entered(server.url) as http:
            until(http, (2, 0))
            assert attempts(http, "borrows") == ("RUNNING", 0)
            http.put("/jobs/admin~borrows/executionType", json={"value": "STOP"})
            until(http, (0, 0))
    finally:
        server.end()
