"""Monitoring on a real server: what a kill costs, between an action and its record too, and a real Alertmanager."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port

from .server import Server, until

pytestmark = pytest.mark.full
LOST_MAX_MS = 15_000
QUICK = {"openpai.app.loops.ALERTS_EVERY_S": 0.5, "openpai.app.loops.MESSAGES_EVERY_S": 0.5}
"""Evaluates rules and sends messages so often that a test need not wait for it; nothing here depends on how often."""
DRAINED = {"filter": "alertname=Drained"}
RULE = """\
alert: {name}
expr: {expr}
annotations: {{summary: "an alert of a test"}}
notify: {notify}
actions: {actions}
"""


def set_rule(server: Server, name: str, expr: str, *, notify: str = "[]", actions: str = "[]") -> None:
    text = RULE.format(name=name, expr=expr, notify=notify, actions=actions)
    server.http.put(f"/alert-rules/{name}", json={"text": text}).raise_for_status()


def actions_of(server: Server, rule: str) -> list[dict[str, Any]]:
    return [one for one in server.get("/alerts/actions") if one["rule"] == rule]


def firing(server: Server) -> set[str]:
    """Return the rules whose alerts fire."""
    return {one["labels"]["alertname"] for one in server.get("/alerts")}


def test_a_server_that_is_killed_by_its_own_action_does_not_repeat_it(tmp_path: Path) -> None:
    # The command kills the server: it has acted, and nothing of that is recorded.
    ran, pid = tmp_path / "ran", tmp_path / "pid"
    script = f"echo ran >> {ran}; kill -9 $(cat {pid})"
    commands = tmp_path / "commands.yaml"
    commands.write_text(f'die: [/bin/sh, -c, "{script}"]\n')
    options = ("--alert-commands", str(commands), "--backend", "simulated")
    server = Server.start(tmp_path / "data", 0, *options, constants=QUICK)
    try:
        pid.write_text(str(server.process.pid))
        set_rule(server, "Die", "sum(pai_ready) > 0", actions="[command: die]")
        until(lambda: server.process.poll() is not None, "the action kills the server")
        assert server.process.returncode == -signal.SIGKILL
        server = server.again()
        until(lambda: [one["state"] for one in actions_of(server, "Die")] == ["failed"], "it is recorded")
        (action,) = actions_of(server, "Die")
        assert "it is not repeated" in action["detail"]
        # Two evaluations later the alert still fires, and does not act again.
        for later in ("Second", "Third"):
            set_rule(server, later, "sum(pai_ready) > 0")
            until(lambda later=later: later in firing(server), f"{later} is evaluated")  # type: ignore[misc]
        assert "Die" in firing(server)
        assert len(actions_of(server, "Die")) == 1
        assert ran.read_text() == "ran\n"
    finally:
        server.end()


def test_a_killed_server_loses_less_than_two_rounds_of_metrics(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "data", 0, "--backend", "simulated")
    try:
        until(lambda: len(points_of(server)) >= 3, "three rounds are kept")
        killed_ms = time.time() * 1000
        server.process.kill()
        server.process.wait()
        server = server.again()
        kept = [at_ms for at_ms in points_of(server) if at_ms <= killed_ms]
    finally:
        server.end()
    assert len(kept) >= 2
    assert killed_ms - kept[-1] < LOST_MAX_MS
    assert all(later - earlier == 10_000 for earlier, later in itertools.pairwise(kept))


def points_of(server: Server) -> list[int]:
    """Return the times of the kept values of a metric, of the last minutes."""
    now_ms = int(time.time() * 1000)
    span = {"start": now_ms - 300_000, "end": now_ms + 10_000, "points": 300}
    found = server.http.get("/metrics/pai_nodes", params=span).raise_for_status().json()
    assert found["step"] == 10_000
    means = found["series"][0]["mean"] if found["series"] else []
    return [found["start"] + place * 10_000 for place, value in enumerate(means) if value is not None]


@contextmanager
def alertmanager(where: Path) -> Iterator[str]:
    """Run an Alertmanager, and yield its address."""
    port = free_port()
    (where / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    command = [
        "prometheus-alertmanager", f"--config.file={where}/alertmanager.yml", f"--storage.path={where}/state",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    with (where / "alertmanager.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.skipif(
    shutil.which("prometheus-alertmanager") is None,
    reason="no Alertmanager here: apt-get install prometheus-alertmanager",
)
def test_an_alertmanager_gets_what_fires_and_hears_of_its_end(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as url:
        server = Server.start(tmp_path / "data", 0, "--backend", "simulated", constants=QUICK)
        try:
            channel = {"kind": "alertmanager", "data": {"url": url}}
            server.http.put("/alert-channels/am", json=channel).raise_for_status()
            node = server.get("/nodes")[0]["name"]
            server.http.put(f"/nodes/{node}", json={"drained": True, "reason": "a test"}).raise_for_status()
            set_rule(server, "Drained", "pai_node_drained == 1", notify="[am]")
            until(lambda: bool(alerts_in(url)), "Alertmanager has the alert")
            (alert,) = alerts_in(url)
            server.http.put(f"/nodes/{node}", json={"drained": False}).raise_for_status()
            until(lambda: not alerts_in(url), "Alertmanager knows that it is over")
        finally:
            server.end()
    assert (alert["labels"]["alertname"], alert["annotations"]["summary"]) == ("Drained", "an alert of a test")
    assert alert["status"]["state"] == "active"


def alerts_in(url: str) -> list[dict[str, Any]]:
    """Return the alerts that Alertmanager holds; none while it starts."""
    try:
        found: list[dict[str, Any]] = httpx.get(f"{url}/api/v2/alerts", params=DRAINED).raise_for_status().json()
    except httpx.HTTPError:
        return []
    return found
