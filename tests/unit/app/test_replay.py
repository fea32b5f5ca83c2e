"""Plans and replays: the scheduler on the answers of a server, without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from openpai.cli import session
from openpai.client import Client
from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import read_promises
from openpai.scheduler.model import Ask, Gang, Node
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.outcome import run_pai

NODES = [Node(f"gpu-{number}", 64, 65_536, 8) for number in range(2)]


@pytest.fixture
def pai(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `pai` and returns its exit code and what it said."""
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: astuple(run_pai(*arguments))


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the nodes that a server reports, for the test to change."""
    found = [
        {
            "name": node.name,
            "healthy": True,
            "gpuModel": "A100",
            "gpus": {"total": node.gpus, "used": 0},
            "cpus": {"total": node.cpus, "used": 0},
            "memoryMB": {"total": node.memory_mb, "used": 0},
        }
        for node in NODES
    ]
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=found))
    monkeypatch.setattr(session, "connect", lambda: Client("http://pai.test", "t", user="ann", transport=transport))
    return found


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return a snapshot in which one job of vision runs and two wait."""
    scheduler = HivedScheduler()
    for node in NODES:
        scheduler.set_node(node)
    scheduler.reconfigure(plan([(node, "A100") for node in NODES], read_promises("vision: 1 node")))
    for number, name in enumerate(("one", "two", "three")):
        scheduler.add(Gang(f"{name}/0", (Ask(1, 64, 8),), "vision", submitted_at_ms=number, job=f"ann~{name}"))
    for decision in scheduler.decide(1_000, 10):
        scheduler.commit(decision.gang)
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(scheduler.snapshot()))
    return file


def test_a_plan_makes_the_promises_and_leaves_the_rest_to_default(pai, machines, tmp_path):
    file = tmp_path / "cluster.yaml"
    code, out, _ = pai("vc", "plan", "team A: 1 node, b: 2 GPUs of A100", "-o", str(file))
    assert (code, f"pai vc apply {file}" in out) == (0, True)
    clusters = yaml.safe_load(file.read_text())["virtualClusters"]
    assert list(clusters) == ["team A", "b", "default"]
    assert pai("vc", "plan", "team A: 1 node, b: 2 GPUs of A100")[1] == file.read_text()


def test_a_plan_for_more_than_there_is_says_what_is_left(pai, machines):
    code, out, err = pai("vc", "plan", "a: 3 nodes")
    assert (code, out) == (2, "")
    assert "3 nodes" in err


def test_a_plan_needs_nodes(pai, machines):
    machines.clear()
    code, _, err = pai("vc", "plan", "a: 3 nodes")
    assert code == 2
    assert "no nodes" in err


def test_a_replay_shows_every_waiting_gang_and_why(pai, snapshot):
    code, out, _ = pai("scheduler", "replay", str(snapshot))
    assert code == 0
    assert out.index("ann~two") < out.index("ann~three")
    assert "ann~one\n" not in out
    assert "waits: " in out
    document = json.loads(pai("scheduler", "replay", str(snapshot), "--json")[1])
    assert [answer["gang"] for answer in document["answers"]] == ["two/0", "three/0"]
    assert {answer["decision"] for answer in document["answers"]} == {"wait"}


@pytest.mark.parametrize("name", ["three/0", "ann~three"])
def test_a_replay_of_one_is_named_by_gang_or_job(pai, snapshot, name):
    document = json.loads(pai("scheduler", "replay", str(snapshot), "--job", name, "--json")[1])
    (answer,) = document["answers"]
    assert (answer["gang"], answer["why"]["position"]) == ("three/0", 2)
    assert "ann~two" in answer["why"]["ahead"]


def test_a_replay_shows_what_a_change_of_the_snapshot_would_do(pai, snapshot):
    data = json.loads(snapshot.read_text())
    data["held"], data["core"]["gangs"], data["core"]["holdings"] = [], [], []
    snapshot.write_text(json.dumps(data))
    code, out, _ = pai("scheduler", "replay", str(snapshot), "--job", "ann~two")
    assert (code, "is placed: gpu-" in out) == (0, True)


@pytest.mark.parametrize("content", ["", "no json", "[]", "{}", '{"format": 0, "now_ms": 1, "core": {}}'])
def test_what_is_no_snapshot_is_refused_in_one_sentence(pai, tmp_path, content):
    file = tmp_path / "s.json"
    file.write_text(content)
    code, out, err = pai("scheduler", "replay", str(file))
    assert (code, out) == (2, "")
    assert "snapshot" in err


def test_a_damaged_snapshot_is_refused(pai, snapshot):
    data = json.loads(snapshot.read_text())
    del data["core"]["config"]
    snapshot.write_text(json.dumps(data))
    code, out, err = pai("scheduler", "replay", str(snapshot))
    assert (code, out) == (2, "")
    assert "damaged" in err


def test_a_gang_that_does_not_wait_is_answered_with_those_that_do(pai, snapshot):
    code, _, err = pai("scheduler", "replay", str(snapshot), "--job", "ann~one")
    assert code == 3
    assert "ann~two, ann~three" in err
