"""One server runs the jobs and two more answer beside it: any of the three may get any request."""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest

from openpai.client import Client
from openpai.client.shells import open_port, open_shell, task_of
from openpai.protocol.errors import Unavailable
from tests.postgres import away, fresh_database

from .server import Server, until


@dataclass
class Trio:
    """Three servers over one database."""

    servers: list[Server]
    database: str


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three servers for all tests of this module, which find the jobs of those before them."""
    place = tmp_path_factory.mktemp("trio")
    with ExitStack() as stack:
        url = f"sqlite:///{place / 'jobs.db'}"
        if request.param == "postgresql":
            server = request.getfixturevalue("postgres_server")
            url = stack.enter_context(fresh_database(server, "several"))
        found = Trio([], url)
        stack.callback(lambda: [server.end() for server in found.servers])
        found.servers.append(Server.start(place / "leader", 0, "--backend", "process", "--database-url", url))
        shared = ("--api-only", "--data-dir", str(place / "leader" / "data"), "--database-url", url)
        for name in ("second", "third"):
            found.servers.append(Server.start(place / name, 0, "--backend", "process", *shared))
        yield found


@pytest.mark.full
def test_any_of_three_servers_takes_any_request(trio: Trio) -> None:
    check_logins(trio.servers)
    first, second, third = trio.servers
    for number, server in enumerate(trio.servers):
        assert server.submit(f"job-{number}", "echo hello").status_code == 202
    for number, server in enumerate(trio.servers):
        assert len(server.get("/jobs")) == 3
        assert trio.servers[(number + 1) % 3].ended(f"job-{number}") == "SUCCEEDED"
        log = server.http.get("/jobs/job-0/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout")
        assert (log.status_code, log.text) == (200, "hello\n")
        assert [node["healthy"] for node in server.get("/nodes")] == [True] * 4
        assert server.get(f"/jobs/job-{number}/why")["waits"] == []
        assert "default" in server.get("/virtual-clusters")
    assert second.submit("job-0", "true").status_code == 409
    # A request to one server is carried out by the leader.
    assert third.submit("long", "sleep 600").status_code == 202
    until(lambda: second.state("long") == "RUNNING", "it runs")
    check_shell_and_port(second)
    drained = third.http.put(f"/nodes/{third.get('/nodes')[0]['name']}", json={"drained": True})
    assert drained.status_code in (200, 201), drained.text
    assert [node["drained"] for node in first.get("/nodes")].count(True) == 1
    assert second.http.put("/jobs/long/executionType", json={"value": "STOP"}).status_code == 202
    assert third.ended("long") == "STOPPED"


def check_logins(servers: list[Server]) -> None:
    """Use a login of one server at all of them, and end it at another."""
    login = {"Authorization": servers[1].http.headers["Authorization"]}
    for server in servers:
        assert server.http.get("/jobs", headers=login).json() == []
    assert servers[2].http.delete(f"/tokens/{login['Authorization'].split()[1]}").status_code == 200
    for server in servers:
        until(lambda server=server: server.http.get("/jobs", headers=login).status_code == 401, "the login ends")
    vars(servers[1]).pop("http").close()


ECHO: Final = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    accepted, _ = listener.accept()
    with accepted:
        assert accepted.makefile("rb").read({size}) == bytes(range(256)) * ({size} // 256)
        accepted.sendall(b"back")
"""


def check_shell_and_port(server: Server) -> None:
    """Reach the task of the job `long` through a server that does not lead."""
    token = server.http.headers["Authorization"].removeprefix("Bearer ")
    with socket.create_server(("127.0.0.1", 0)) as listener, Client(server.url, token, user="admin") as pai:
        place = task_of(pai, "long")
        with open_shell(pai, place, ["sh", "-c", "cat; exit 3"]) as shell:
            shell.write(b"through")
            shell.close_stdin()
            assert b"".join(data for _, data in shell) == b"through"
            assert shell.exit_code == 3
        # Tasks of the process backend share the network of the machine; another program's port is refused.
        with pytest.raises(Unavailable, match="another program on its node does"):
            open_port(pai, place, listener.getsockname()[1])
        sent = bytes(range(256)) * 4000
        with open_shell(pai, place, [sys.executable, "-c", ECHO.format(size=len(sent))]) as shell:
            _, number = next(iter(shell))
            with open_port(pai, place, int(number)) as port:
                writing = threading.Thread(target=port.write, args=(sent,))
                writing.start()
                assert b"".join(data for _, data in port) == b"back"
                writing.join()


@pytest.mark.full
def test_without_a_leader_what_is_known_is_answered_and_the_rest_says_so(trio: Trio) -> None:
    leader, second, third = trio.servers
    known = second.get("/jobs")
    leader.end()
    assert second.get("/jobs") == known
    until(lambda: second.http.get("/nodes").status_code == 503, "no server leads")
    answer = third.http.get("/nodes")
    assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
    assert second.submit("patient", "true").status_code == 202
    trio.servers[0] = leader.again()
    assert third.ended("patient") == "SUCCEEDED"
    until(lambda: third.http.get("/nodes").status_code == 200, "a server leads")


@pytest.mark.full
@pytest.mark.parametrize("trio", ["postgresql"], indirect=True)
def test_a_database_that_goes_away_is_reported_and_used_again(trio: Trio) -> None:
    def health(what: str = "readyz") -> list[int]:
        return [server.http.get(f"{server.url}/{what}").status_code for server in trio.servers]

    second = trio.servers[1]
    earlier = {job["name"] for job in second.get("/jobs")}
    for number, server in enumerate(trio.servers):
        assert server.submit(f"before-{number}", "sleep 1").status_code == 202
    with away(trio.database.rpartition("/")[0]):
        until(lambda: health() == [503] * 3, "all are unready")
        assert health("healthz") == [200] * 3
        for server in trio.servers:
            answer = server.submit("meanwhile", "true")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["message"] == "the database does not answer"
    until(lambda: health() == [200] * 3, "all are ready")
    for number, server in enumerate(trio.servers):
        after = partial(server.submit, f"after-{number}", "true")
        until(lambda after=after: after().status_code == 202, "a job is taken")
    names = {f"{when}-{number}" for when in ("before", "after") for number in range(3)}
    until(lambda: {job["name"] for job in second.get("/jobs?state=SUCCEEDED")} - earlier == names, "all have ended")
    assert {job["name"] for job in second.get("/jobs")} - earlier == names
    for server in trio.servers:
        assert "Traceback" not in server.log()
        assert "the database cannot be " in server.log()
        assert re.search(r"the database can be \w+ again", server.log())
    # A server that is stopped meanwhile ends in good order.
    with away(trio.database.rpartition("/")[0]):
        assert [server.end() for server in trio.servers] == [0, 0, 0]
