"""Two virtual clusters on one platform, as an administrator and their users meet them at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Person, Server, job_text, logged_in
from tests.e2e.server import until as wait_until


@pytest.fixture
def pai(tmp_path: Path) -> Iterator[Person]:
    """Return the administrator of four simulated machines with eight GPUs each, of which two teams share three."""
    options = ("--backend", "simulated", "--gpus-per-node", "8", "--share", "vision: 2 nodes, speech: 8 GPUs")
    running = Server.start(tmp_path / "platform", 0, *options)
    yield logged_in(tmp_path / "home", running.url)
    assert running.end() == 0


@pytest.fixture
def submit(pai: Person, tmp_path: Path) -> Callable[..., None]:
    """Return a function that submits a job which runs for ever on so many GPUs of a virtual cluster."""

    def submitted(name: str, vc: str, gpus: int = 8) -> None:
        resources = {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": gpus}}
        text = job_text(name, "sleep infinity", role=resources, defaults={"virtualCluster": vc})
        message = pai("job", "submit", "-", stdin=text)
        assert message.code == 0, message.err

    return submitted


def state(pai: Person, name: str) -> str:
    return str(pai("job", "show", name, "--json").json()["jobStatus"]["state"])


def until(pai: Person, name: str, expected: str) -> None:
    wait_until(lambda: state(pai, name) == expected, f"{name} is {expected}")


def gpus(pai: Person, vc: str) -> tuple[int, int, int]:
    """Return how many GPUs of a virtual cluster are used, healthy and promised."""
    found = pai("vc", "list", "--json").json()[vc]
    used, healthy, promised = (found[f"resources{kind}"]["gpu"] for kind in ("Used", "Guaranteed", "Total"))
    return used, healthy, promised


def test_two_teams_share_a_cluster_and_an_administrator_changes_their_minds(pai, submit, tmp_path):
    assert [gpus(pai, vc) for vc in ("vision", "speech", "default")] == [(0, 16, 16), (0, 8, 8), (0, 8, 8)]
    for name in ("v1", "v2"):
        submit(name, "vision")
        until(pai, name, "RUNNING")
    submit("v3", "vision")
    submit("v4", "vision")
    submit("s1", "speech")
    until(pai, "s1", "RUNNING")
    assert gpus(pai, "vision") == (16, 16, 16)

    message = pai("job", "why", "v4")
    assert message.code == 0
    assert "position in the queue: 2; ahead of it: admin~v3" in message.out
    assert "may start: unknown" in " ".join(message.out.split())
    assert max(map(len, pai("vc", "list").out.splitlines())) <= 80

    # The same scheduler on the same state gives the same answer, without a server.
    wait = pai("job", "why", "v4", "--json").json()["waits"][0]
    snapshot = tmp_path / "snapshot.json"
    assert pai("scheduler", "snapshot", "-o", str(snapshot)).code == 0
    replayed = pai("scheduler", "replay", str(snapshot), "--job", "admin~v4", "--json").json()
    (answer,) = replayed["answers"]
    assert (answer["decision"], answer["why"]["code"], answer["why"]["message"]) == (
        "wait",
        wait["code"],
        wait["message"],
    )
    assert answer["why"]["position"] == wait["position"] == 2

    assert pai("job", "move", "v4", "--front").code == 0
    assert "position in the queue: 1" in pai("job", "why", "v4").out

    # With one node more, the job that was moved to the front runs; the others are not disturbed.
    message = pai("vc", "set", "vision", "3 nodes")
    assert message.code == 0, message.err
    until(pai, "v4", "RUNNING")
    assert state(pai, "v3") == "WAITING"
    assert gpus(pai, "vision") == (24, 24, 24)
    message = pai("vc", "set", "vision", "1 node")
    assert message.code == 0, message.err
    assert "keep running without a guarantee" in message.err
    assert {state(pai, name) for name in ("v1", "v2", "v4", "s1")} == {"RUNNING"}
    assert gpus(pai, "vision")[2] == 8
    assert pai("vc", "remove", "vision").code == 5


def test_a_plan_can_be_applied_and_read_back(pai, submit, tmp_path):
    file = tmp_path / "cluster.yaml"
    assert pai("vc", "plan", "vision: 1 node, robots: 12 GPUs", "-o", str(file)).code == 0
    message = pai("vc", "apply", str(file))
    assert message.code == 0, message.err
    assert [gpus(pai, vc)[2] for vc in ("vision", "robots", "default")] == [8, 12, 12]
    assert pai("vc", "config").out == file.read_text()
    submit("r1", "robots", 4)
    until(pai, "r1", "RUNNING")
    lines = pai("vc", "inspect").out.splitlines()
    (used,) = [line for line in lines if "robots" in line]
    assert "████····" in used
    assert sum("node-0" in line for line in lines) == 4
    assert f"robots/0 {used.split()[1]}" in pai("vc", "inspect", "robots").out
    assert pai("vc", "show", "speech").code == 3
