"""A job on borrowed devices survives a killed server as a borrower, and gets its guarantee later where it runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.server import Server, until

JOB = {
    "role": {"resourcePerInstance": {"cpu": 2, "memoryMB": 64, "gpu": 0}},
    "defaults": {"virtualCluster": "vision"},
    "extras": {"hivedScheduler": {"interruptible": True}},
}


def cpus(server: Server) -> tuple[int, int]:
    """Return how many CPUs jobs of the virtual cluster use of its own and borrow from others."""
    vision = server.get("/virtual-clusters")["vision"]
    return vision["resourcesUsed"]["cpu"], vision["resourcesBorrowed"]["cpu"]


def retries(server: Server, name: str) -> int:
    """Return how often a job was retried."""
    return int(server.get(f"/jobs/admin~{name}")["jobStatus"]["retries"])


@pytest.mark.slow
def test_a_borrower_is_one_after_its_server_was_killed(tmp_path: Path) -> None:
    shares = ("--backend", "process", "--cpus-per-node", "2", "--share", "vision: 1 node")
    server = Server.start(tmp_path, 0, *shares)
    try:
        for name, wanted in (("own", (2, 0)), ("borrows", (2, 2))):
            assert server.submit(name, "sleep 600", **JOB).status_code == 202
            # A task that has not started when its server dies may be started again.
            until(lambda name=name: server.state(name) == "RUNNING", f"{name} runs")
            until(lambda wanted=wanted: cpus(server) == wanted, f"{name} has its CPUs")
        server.end(signal.SIGKILL)
        server = server.again()
        until(lambda: cpus(server) == (2, 2), "it borrows again")
        assert server.http.put("/jobs/admin~own/executionType", json={"value": "STOP"}).status_code == 202
        until(lambda: cpus(server) == (2, 0), "it has the guarantee")
        assert (server.state("borrows"), retries(server, "borrows")) == ("RUNNING", 0)
        server.end(signal.SIGKILL)
        server = server.again()
        until(lambda: cpus(server) == (2, 0), "it still has the guarantee")
        assert (server.state("borrows"), retries(server, "borrows")) == ("RUNNING", 0)
        server.http.put("/jobs/admin~borrows/executionType", json={"value": "STOP"})
        until(lambda: cpus(server) == (0, 0), "nothing is used")
    finally:
        server.end()
