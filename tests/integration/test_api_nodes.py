"""Nodes over HTTP: drained, out of order, and who holds what of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from openpai.backends.simulated.backend import SimulatedBackend
from openpai.ports.backend import NodeCheck, NodeSeen

from .sharing_world import SHARED, Sharing, eventually, gpus, open_sharing


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Sharing]:
    async with open_sharing(tmp_path) as world:
        yield world


@pytest.fixture
async def shared(world: Sharing) -> Sharing:
    await world.put("/cluster/config", {"promises": SHARED})
    return world


async def test_a_drained_node_keeps_what_runs_and_gets_nothing_new(shared: Sharing) -> None:
    await shared.submit("stays", "speech", 8)
    await shared.until("stays", "RUNNING")
    name = next(node["name"] for node in await shared.get("/nodes") if node["virtualClusters"] == ["speech"])
    drained = await shared.put(f"/nodes/{name}", {"drained": True, "reason": "new fan"})
    assert (drained["drained"], drained["drainedBecause"], drained["tasks"]) == (True, "new fan", 1)
    assert (await shared.get("/virtual-clusters?nodes"))[name]["gpuAvailable"] == 0
    assert await shared.state("stays") == "RUNNING"
    await shared.put("/jobs/stays/executionType", {"value": "STOP"}, status=202)
    await shared.until("stays", "STOPPED")
    others = [node["name"] for node in await shared.get("/nodes") if node["name"] != name]
    for other in others[1:]:
        await shared.put(f"/nodes/{other}", {"drained": True})
    await shared.put(f"/nodes/{others[0]}", {"drained": True})
    await shared.submit("later", "speech", 8)
    assert (await shared.until_it_waits("later"))["code"]
    given_back = await shared.put(f"/nodes/{name}", {"drained": False})
    assert (given_back["drained"], given_back["drainedBecause"]) == (False, "")
    await shared.until("later", "RUNNING")
    assert [node["name"] for node in await shared.get("/nodes") if node["tasks"]] == [name]


async def test_grants_are_shown_only_to_users_who_may_see_them(shared: Sharing) -> None:
    await shared.add_user("eve", "speech")
    await shared.submit("big", "vision", 8, instances=2, extras="{timeLimitMinutes: 60}")
    await shared.submit("hers", "speech", 8, user="eve")
    await shared.until("big", "RUNNING")
    await shared.submit("waits", "vision", 8)
    await shared.until_it_waits("waits")
    (held,) = (await shared.get("/jobs/waits/why"))["held"]["jobs"]
    assert (held["job"], held["gpus"], held["endsTime"] - held["startedTime"]) == ("admin~big", 16, 3_600_000)
    assert (await shared.get("/jobs/big/why")) == {
        "waits": [],
        "held": {"jobs": [], "others": {"jobs": 0, "tasks": 0, "gpus": 0, "cpus": 0}},
        "borrowed": {"cpu": 0, "memory": 0, "gpu": 0, "vCores": 0, "GPUs": 0},
    }
    name = next(node["name"] for node in await shared.get("/nodes") if node["virtualClusters"] == ["vision"])
    seen = await shared.get(f"/nodes/{name}")
    assert [(one["job"], one["devices"]) for one in seen["jobs"]] == [("admin~big", list(range(8)))]
    stranger = await shared.get(f"/nodes/{name}", "eve")
    assert stranger["jobs"] == []
    assert stranger["others"] == {"jobs": 1, "tasks": 1, "gpus": 8, "cpus": 1 * seen["cpus"]["used"]}
    assert [job["name"] for job in await shared.get(f"/jobs?node={name}")] == ["big"]
    assert await shared.get(f"/jobs?node={name}&username=eve") == []
    idle = next(node["name"] for node in await shared.get("/nodes") if not node["tasks"])
    assert await shared.get(f"/jobs?node={idle}") == []
    assert await shared.refused("GET", "/jobs?node=nowhere") == (404, "NoNodeError")
    assert await shared.refused("GET", "/nodes/nowhere") == (404, "NoNodeError")


async def test_a_deadline_puts_jobs_back_into_the_queue(shared: Sharing) -> None:
    await shared.submit("leaves", "speech", 8)
    await shared.until("leaves", "RUNNING")
    name = next(node["name"] for node in await shared.get("/nodes") if node["tasks"])
    wrong = {"drained": False, "deadlineSeconds": 1}
    assert await shared.refused("PUT", f"/nodes/{name}", json=wrong) == (400, "InvalidParametersError")
    drained = await shared.put(f"/nodes/{name}", {"drained": True, "reason": "fans", "deadlineSeconds": 0})
    assert drained["drainDeadline"] is not None

    async def is_elsewhere() -> bool:
        return name not in [node["name"] for node in await shared.get("/nodes") if node["tasks"]]

    await eventually(is_elsewhere, "it left")
    events = (await shared.get("/jobs/leaves/events"))["data"]
    assert any("is drained and its deadline has passed: fans" in event["message"] for event in events)
    history = (await shared.get(f"/nodes/{name}"))["history"]
    assert [one["detail"]["deadlineSeconds"] for one in history if one["status"] == 200] == [0]


async def test_bad_devices_are_not_counted_and_not_granted(shared: Sharing) -> None:
    for node in await shared.get("/nodes"):
        changed = await shared.put(f"/nodes/{node['name']}", {"badDevices": [2, 5], "reason": " fell off\nthe bus"})
        assert (changed["badDevices"], changed["badBecause"]) == ([2, 5], "fell off the bus")
    assert await gpus(shared) == {"default": 8, "speech": 8, "vision": 16}
    assert sum((await gpus(shared, "Guaranteed")).values()) < 32
    assert (await shared.get("/virtual-clusters?nodes"))["node-01"]["gpuAvailable"] == 6


async def test_the_checks_of_a_node_are_shown_and_storages_only_to_administrators(
    shared: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = NodeCheck("disk", "failed", "nothing can be written", since_ms=5, checked_ms=9)
    found, seen = (
        (disk, NodeCheck("storage secret", "warning", "/data/secret is missing", is_about_storage=True)),
        SimulatedBackend.nodes,
    )

    async def nodes(backend: SimulatedBackend) -> tuple[NodeSeen, ...]:
        return tuple(replace(node, checks=found) for node in await seen(backend))

    monkeypatch.setattr(SimulatedBackend, "nodes", nodes)
    name = (await shared.get("/nodes"))[0]["name"]
    await shared.put(f"/nodes/{name}", {"drained": False})
    shown = (await shared.get(f"/nodes/{name}"))["checks"]
    message = "nothing can be written"
    assert shown[0] == {"name": "disk", "result": "failed", "message": message, "sinceTime": 5, "checkedTime": 9}
    assert [check["name"] for check in shown] == ["disk", "storage secret"]
    await shared.add_user("eve", "speech")
    assert [check["name"] for check in (await shared.get(f"/nodes/{name}", "eve"))["checks"]] == ["disk"]
