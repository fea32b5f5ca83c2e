"""One server runs the jobs and two more answer beside it: any of the three may get any request."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.postgres import away, fresh_database, postgres

from .server import PASSWORD, Server

JOB = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: image, uri: python}}]
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: [{command}]
"""
WITHIN_S = 60


@dataclass
class Trio:
    """Three servers, and a logged-in user with a client of each."""

    servers: list[Server]
    clients: list[httpx.Client]
    token: str
    database: str

    def get(self, number: int, path: str) -> Any:
        """Return what a server answers; it has to."""
        answer = self.clients[number].get(f"/api/v2{path}", headers=self.headers())
        assert answer.status_code == 200, answer.text
        return answer.json()

    def headers(self) -> dict[str, str]:
        """Return what the person sends along."""
        return {"Authorization": f"Bearer {self.token}"}

    def submit(self, number: int, name: str, command: str = "echo hello") -> httpx.Response:
        """Submit a job to one of the servers."""
        text = JOB.format(name=name, command=command)
        return self.clients[number].post("/api/v2/jobs", content=text, headers=self.headers())

    def state(self, number: int, name: str) -> str:
        """Return a job's state, as one of the servers answers it."""
        return str(self.get(number, f"/jobs/{name}")["jobStatus"]["state"])


def until(is_true: Callable[[], bool]) -> None:
    """Wait for something that processes of their own bring about."""
    deadline = time.monotonic() + WITHIN_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


@pytest.fixture(params=["sqlite", "postgresql"])
def trio(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trio]:
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
        if request.param == "postgresql":
            url = stack.enter_context(fresh_database(stack.enter_context(postgres()), "several"))
        started = [Server.start(tmp_path / "leader", 0, "--backend", "process", "--database-url", url)]
        stack.callback(end, started[0])
        shared = ("--api-only", "--data-dir", str(tmp_path / "leader" / "data"), "--database-url", url)
        for name in ("second", "third"):
            started.append(Server.start(tmp_path / name, 0, "--backend", "process", *shared))
            stack.callback(end, started[-1])
        clients = [stack.enter_context(httpx.Client(base_url=server.url, timeout=WITHIN_S)) for server in started]
        login = clients[1].post("/api/v2/authn/basic/login", json={"username": "admin", "password": PASSWORD})
        assert login.status_code == 200, login.text
        yield Trio(started, clients, login.json()["token"], url)


def end(server: Server) -> None:
    if server.process.poll() is None:
        server.end()


@pytest.mark.full
def test_any_of_three_servers_takes_any_request(trio: Trio) -> None:
    every = range(3)
    for number in every:
        assert trio.submit(number, f"job-{number}").status_code == 202
    for number in every:
        assert len(trio.get(number, "/jobs")) == 3
        until(lambda number=number: trio.state((number + 1) % 3, f"job-{number}") == "SUCCEEDED")
        log = "attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout"
        message = trio.clients[number].get(f"/api/v2/jobs/job-0/{log}", headers=trio.headers())
        assert (message.status_code, message.text) == (200, "hello\n")
        assert [node["healthy"] for node in trio.get(number, "/nodes")] == [True] * 4
        assert trio.get(number, f"/jobs/job-{number}/why")["waits"] == []
        assert "default" in trio.get(number, "/virtual-clusters")
    assert trio.submit(1, "job-0").status_code == 409
    # A request to one server is carried out by the leader.
    assert trio.submit(2, "long", "sleep 600").status_code == 202
    until(lambda: trio.state(1, "long") == "RUNNING")
    drained = trio.clients[2].put(
        f"/api/v2/nodes/{trio.get(2, '/nodes')[0]['name']}", json={"drained": True}, headers=trio.headers()
    )
    assert drained.status_code in (200, 201), drained.text
    assert [node["drained"] for node in trio.get(0, "/nodes")].count(True) == 1
    promise = {"value": "STOP"}
    assert (
        trio.clients[1].put("/api/v2/jobs/long/executionType", json=promise, headers=trio.headers()).status_code == 202
    )
    until(lambda: trio.state(2, "long") == "STOPPED")


@pytest.mark.full
def test_a_login_holds_everywhere_and_ends_everywhere(trio: Trio) -> None:
    assert [len(trio.get(number, "/jobs")) for number in range(3)] == [0, 0, 0]
    assert trio.clients[2].delete(f"/api/v2/tokens/{trio.token}", headers=trio.headers()).status_code == 200
    for client in trio.clients:
        until(lambda client=client: client.get("/api/v2/jobs", headers=trio.headers()).status_code == 401)


@pytest.mark.full
def test_without_a_leader_what_is_known_is_answered_and_the_rest_says_so(trio: Trio) -> None:
    trio.servers[0].end(signal.SIGTERM)
    assert trio.get(1, "/jobs") == []
    until(lambda: trio.clients[1].get("/api/v2/nodes", headers=trio.headers()).status_code == 503)
    answer = trio.clients[2].get("/api/v2/nodes", headers=trio.headers())
    assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
    assert trio.submit(1, "patient").status_code == 202
    again = trio.servers[0].again()
    try:
        until(lambda: trio.state(2, "patient") == "SUCCEEDED")
        until(lambda: trio.clients[2].get("/api/v2/nodes", headers=trio.headers()).status_code == 200)
    finally:
        again.end()


@pytest.mark.full
@pytest.mark.parametrize("trio", ["postgresql"], indirect=True)
def test_a_database_that_goes_away_is_reported_and_used_again(trio: Trio) -> None:
    def health() -> list[int]:
        return [client.get("/readyz").status_code for client in trio.clients]

    for number in range(3):
        assert trio.submit(number, f"before-{number}", "sleep 1").status_code == 202
    with away(trio.database.rpartition("/")[0]):
        until(lambda: health() == [503] * 3)
        assert [client.get("/healthz").status_code for client in trio.clients] == [200] * 3
        for number in range(3):
            answer = trio.submit(number, "meanwhile")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["message"] == "the database does not answer"
    until(lambda: health() == [200] * 3)
    for number in range(3):
        until(lambda number=number: trio.submit(number, f"after-{number}").status_code == 202)
    names = {f"{when}-{number}" for when in ("before", "after") for number in range(3)}
    until(lambda: {job["name"] for job in trio.get(1, "/jobs?state=SUCCEEDED")} == names)
    logs = [(server.data_dir / "server.log").read_text() for server in trio.servers]
    assert not any("Traceback" in log for log in logs)
    assert all("the database cannot be " in log for log in logs)
    assert all(re.search(r"the database can be \w+ again", log) for log in logs)
    # A server that is stopped meanwhile ends in good order.
    with away(trio.database.rpartition("/")[0]):
        assert [server.end() for server in trio.servers] == [0, 0, 0]
