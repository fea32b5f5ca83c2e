"""Sharing over HTTP: what was promised to whom, promising something else while jobs run, and who goes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from openpai.orchestrator import vc_groups
from openpai.orchestrator.vc_groups import forget_vc_groups
from openpai.orchestrator.virtual_clusters import VirtualClusterCommands
from openpai.ports.accounts import AccountStore
from openpai.scheduler.queue.replay import answer

from .sharing_world import SHARED, Sharing, gpus, open_sharing


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Sharing]:
    async with open_sharing(tmp_path) as world:
        yield world


@pytest.fixture
async def shared(world: Sharing) -> Sharing:
    await world.put("/cluster/config", {"promises": SHARED})
    return world


async def test_a_virtual_cluster_that_is_promised_again_while_it_goes_keeps_its_group(
    shared: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meanwhile(accounts: AccountStore, names: Iterable[str]) -> None:
        await shared.put("/virtual-clusters/vision", {"promise": "1 node"}, status=201)
        await forget_vc_groups(accounts, names)

    monkeypatch.setattr(vc_groups, "forget_vc_groups", meanwhile)
    assert (await shared.ask("DELETE", "/virtual-clusters/vision")).status_code == 200
    assert (await gpus(shared))["vision"] == 8
    assert (await shared.get("/groups/vision"))["extension"]["acls"]["virtualClusters"] == ["vision"]


async def test_before_anything_is_promised_all_of_it_is_for_default(world: Sharing) -> None:
    found = await world.get("/virtual-clusters")
    assert list(found) == ["default"]
    vc = found["default"]
    assert (vc["capacity"], vc["maxCapacity"], vc["usedCapacity"], vc["dedicated"]) == (100, 100, 0, False)
    total = vc["resourcesTotal"]
    assert (total["gpu"], total["GPUs"], total["vCores"]) == (32, 32, total["cpu"])
    assert vc["resourcesGuaranteed"] == total
    assert sum(vc["skus"].values()) == 32
    assert await world.get("/virtual-clusters/default") == vc
    nodes = await world.get("/virtual-clusters?nodes")
    assert nodes["node-01"] == {"gpuUsed": 0, "gpuAvailable": 8, "gpuTotal": 8}
    assert len(nodes) == 4


async def test_promises_are_kept_and_the_rest_is_for_default(shared: Sharing) -> None:
    assert await gpus(shared) == {"default": 8, "speech": 8, "vision": 16}
    config = await shared.get("/cluster/config")
    assert (config["promises"], config["version"], config["problems"], config["demoted"]) == (SHARED, 1, [], [])
    assert "virtualClusters" in config["hived"]
    found = await shared.get("/virtual-clusters")
    assert sum(vc["capacity"] for vc in found.values()) == 100


async def test_a_full_virtual_cluster_says_why_which_jobs_are_ahead_and_when(shared: Sharing) -> None:
    for name in ("one", "two"):
        await shared.submit(name, "vision", 8)
        await shared.until(name, "RUNNING")
    await shared.submit("three", "vision", 8)
    await shared.submit("four", "vision", 8)
    await shared.submit("other", "speech", 8)
    await shared.until("other", "RUNNING")
    first, second = await shared.until_it_waits("three"), await shared.until_it_waits("four")
    assert "vision" in first["message"]
    assert first["unblock"]
    assert (first["position"], second["position"]) == (1, 2)
    assert "admin~three" in second["ahead"]
    assert first["estimate"].keys() == {"earliestTime", "latestTime", "basis", "judged", "within"}
    assert first["estimate"]["earliestTime"] is None
    assert "too few of the running jobs have a time limit" in first["estimate"]["basis"]
    vc = await shared.get("/virtual-clusters/vision")
    assert (vc["usedCapacity"], vc["runningGangs"], vc["waitingGangs"]) == (50, 2, 2)
    assert (await gpus(shared, "Used")) == {"default": 0, "speech": 8, "vision": 16}


async def test_time_limits_give_a_waiting_job_a_time(shared: Sharing) -> None:
    await shared.submit("limited", "speech", 8, extras="{timeLimitMinutes: 30}")
    await shared.until("limited", "RUNNING")
    await shared.submit("next", "speech", 8)
    estimate = (await shared.until_it_waits("next"))["estimate"]
    started = (await shared.get("/jobs/limited"))["jobStatus"]["appLaunchedTime"]
    assert abs(estimate["latestTime"] - started - 30 * 60_000) < 60_000
    assert "limit" in estimate["basis"]


async def test_a_promise_changes_while_everything_runs_on(shared: Sharing) -> None:
    for name in ("one", "two", "three"):
        await shared.submit(name, "vision", 8)
    await shared.until("two", "RUNNING")
    await shared.until_it_waits("three")
    grown = await shared.put("/virtual-clusters/vision", {"promise": "3 nodes"}, status=201)
    assert (grown["version"], grown["demoted"]) == (2, [])
    await shared.until("three", "RUNNING")
    shrunk = await shared.put("/virtual-clusters/vision", {"promise": "1 node"}, status=201)
    assert len(shrunk["demoted"]) == 2
    assert set(shrunk["demoted"]) < {"admin~one", "admin~two", "admin~three"}
    assert [await shared.state(name) for name in ("one", "two", "three")] == ["RUNNING"] * 3
    assert (await gpus(shared))["vision"] == 8
    details = [(await shared.get(f"/jobs/{name}"))["jobStatus"]["retries"] for name in ("one", "two", "three")]
    assert details == [0, 0, 0]


async def test_a_virtual_cluster_is_made_and_removed_while_everything_runs(shared: Sharing) -> None:
    await shared.put("/virtual-clusters/robotics", {"promise": "4 GPUs"}, status=201)
    assert (await gpus(shared))["robotics"] == 4
    await shared.submit("arm", "robotics", 4)
    await shared.until("arm", "RUNNING")
    assert await shared.refused("DELETE", "/virtual-clusters/robotics") == (409, "RemoveRunningVcError")
    message = (await shared.ask("DELETE", "/virtual-clusters/robotics")).json()["message"]
    assert message == "virtual cluster 'robotics' is in use by admin~arm"
    await shared.put("/jobs/arm/executionType", {"value": "STOP"}, status=202)
    await shared.until("arm", "STOPPED")
    assert (await shared.ask("DELETE", "/virtual-clusters/robotics")).status_code == 200
    assert await gpus(shared) == {"default": 8, "speech": 8, "vision": 16}


REFUSED: tuple[tuple[str, str, Any, tuple[int, str]], ...] = (
    ("GET", "/virtual-clusters/nobody", None, (404, "NoVirtualClusterError")),
    ("GET", "/virtual-clusters/a$b", None, (400, "InvalidParametersError")),
    ("DELETE", "/virtual-clusters/nobody", None, (404, "NoVirtualClusterError")),
    ("DELETE", "/virtual-clusters/default", None, (403, "ReadOnlyVcError")),
    ("PUT", "/virtual-clusters/default", {"promise": "1 node"}, (403, "ReadOnlyVcError")),
    ("PUT", "/virtual-clusters/vision", {"vcCapacity": 30}, (400, "InvalidParametersError")),
    ("PUT", "/virtual-clusters/vision", {"promise": "a lot"}, (400, "BadConfigurationError")),
    ("PUT", "/virtual-clusters/vision", {"promise": "5 nodes"}, (400, "BadConfigurationError")),
    ("PUT", "/virtual-clusters/vision/status", {"vcStatus": "stopped"}, (501, "NotImplementedError")),
    ("PUT", "/virtual-clusters/nobody/status", {"vcStatus": "running"}, (404, "NoVirtualClusterError")),
    ("GET", "/cluster/sku-types?vc=nobody", None, (404, "NoVirtualClusterError")),
    ("PUT", "/cluster/config", {}, (400, "InvalidParametersError")),
    ("PUT", "/cluster/config", {"promises": "a: 1 node", "hived": "{}"}, (400, "InvalidParametersError")),
    ("PUT", "/cluster/config", {"hived": "physicalCluster: 3"}, (400, "BadConfigurationError")),
    ("PUT", "/cluster/config", {"promises": "a: 1 node", "version": 7}, (409, "ConflictSettingError")),
    ("PUT", "/nodes/nowhere", {"drained": True}, (404, "NoNodeError")),
    ("PUT", "/nodes/node-01", {}, (400, "InvalidParametersError")),
    ("PUT", "/nodes/node-01", {"badDevices": [-1]}, (400, "InvalidParametersError")),
    ("PUT", "/nodes/node-01", {"badDevices": [7, 8]}, (400, "InvalidParametersError")),
    ("DELETE", "/nodes/nowhere", None, (404, "NoNodeError")),
    ("PUT", "/lemons", {"threshold": -1}, (400, "InvalidParametersError")),
    ("PUT", "/lemons", {"threshold": 1, "version": 3}, (409, "ConflictSettingError")),
    ("PUT", "/scheduler/fairness", {"halfLifeHours": 0}, (400, "InvalidParametersError")),
    ("PUT", "/scheduler/fairness", {"halfLifeHours": 1, "version": 3}, (409, "ConflictSettingError")),
    ("PUT", "/scheduler/orders", {"orders": {"vision": "longest"}}, (400, "InvalidParametersError")),
    ("PUT", "/scheduler/orders", {"orders": {"nowhere": "fifo"}}, (404, "NoVirtualClusterError")),
    ("PUT", "/scheduler/orders", {"orders": {}, "version": 3}, (409, "ConflictSettingError")),
    ("PUT", "/jobs/nothing/rank", {"value": "front"}, (404, "NoJobError")),
    ("PUT", "/jobs/nothing/rank", {"value": "up"}, (400, "InvalidParametersError")),
    ("PUT", "/jobs/nothing/priority", {"value": "highest"}, (400, "InvalidParametersError")),
    ("POST", "/jobs/nothing/checkpoint", None, (404, "NoJobError")),
    ("GET", "/scheduler/inspect/affinitygroups/nothing/0", None, (404, "NoJobError")),
    ("GET", "/scheduler/inspect/clusterstatus/virtualclusters/nobody", None, (404, "NoVirtualClusterError")),
)


async def test_what_cannot_be_is_refused_by_name_and_changes_nothing(shared: Sharing) -> None:
    before = await shared.get("/cluster/config")
    for method, path, body, expected in REFUSED:
        asked = await shared.ask(method, path, json=body)
        assert (asked.status_code, asked.json()["code"]) == expected, (method, path, body)
        assert asked.json().get("advice") or expected[1] == "InvalidParametersError"
        assert await shared.get("/cluster/config") == before


async def test_a_percentage_is_answered_with_what_to_send_instead(shared: Sharing) -> None:
    for typed in (30, "30", "33.33 %"):
        asked = {"vcCapacity": typed, "externalName": "", "description": ""}
        answer = await shared.ask("PUT", "/virtual-clusters/vision", json=asked)
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
        assert "not a percentage" in answer.json()["message"]
        assert "3 nodes" in answer.json()["advice"]


async def test_a_node_that_the_backend_sees_is_not_forgotten(shared: Sharing) -> None:
    status, _ = await shared.refused("DELETE", "/nodes/node-01")
    assert 400 <= status < 500
    assert len(await shared.get("/nodes")) == 4


async def test_a_whole_configuration_can_be_read_and_applied_again(shared: Sharing) -> None:
    config = await shared.get("/cluster/config")
    await shared.submit("train", "vision", 8)
    await shared.until("train", "RUNNING")
    applied = await shared.put("/cluster/config", {"hived": config["hived"], "version": config["version"]})
    assert (applied["promises"], applied["version"], applied["demoted"]) == (None, 2, [])
    assert await gpus(shared) == {"default": 8, "speech": 8, "vision": 16}
    assert await shared.state("train") == "RUNNING"


async def test_sku_types_show_what_a_device_has(shared: Sharing) -> None:
    types = await shared.get("/cluster/sku-types")
    assert len(types) == 1
    (sku,) = types.values()
    assert (sku["gpu"], sku["cpu"], sku["memory"]) == (1, 8, 65_536)
    for path in ("/cluster/sku-types?vc=vision", "/cluster/sku-types?vc=", "/virtual-clusters/vision/sku-types"):
        assert await shared.get(path) == types


async def test_cells_and_gangs_are_shown_as_hived_shows_them(shared: Sharing) -> None:
    await shared.submit("train", "vision", 8)
    await shared.until("train", "RUNNING")
    status = await shared.get("/scheduler/inspect/clusterstatus")
    assert status.keys() == {"physicalCluster", "virtualClusters"}
    for below, part in (
        ("/physicalcluster", status["physicalCluster"]),
        ("/virtualclusters", status["virtualClusters"]),
        ("/virtualclusters/", status["virtualClusters"]),
        ("/virtualclusters/vision", status["virtualClusters"]["vision"]),
    ):
        assert await shared.get(f"/inspect/clusterstatus{below}", base="/v1") == part
        assert await shared.get(f"/scheduler/inspect/clusterstatus{below}") == part
    top = status["physicalCluster"][0]
    assert top.keys() >= {"leafCellType", "cellType", "cellAddress", "cellState", "cellHealthiness", "cellPriority"}
    groups = (await shared.get("/inspect/affinitygroups/", base="/v1"))["items"]
    assert [group["status"]["vc"] for group in groups] == ["vision"]
    name = groups[0]["metadata"]["name"]
    assert await shared.get(f"/inspect/affinitygroups/{name}", base="/v1") == groups[0]
    assert [len(devices) for devices in groups[0]["status"]["physicalPlacement"].values()] == [8]


async def test_the_score_at_which_nodes_are_drained_is_set(shared: Sharing) -> None:
    assert (await shared.get("/lemons"))["threshold"] == 2.5
    assert (await shared.put("/lemons", {"threshold": 4}))["version"] == 1
    assert (await shared.get("/lemons"))["threshold"] == 4
    assert (await shared.put("/lemons", {"threshold": 0, "version": 1}))["threshold"] == 0


async def test_fairness_is_on_until_it_is_switched_off(shared: Sharing) -> None:
    assert (await shared.get("/scheduler/fairness"))["halfLifeHours"] == 24
    assert (await shared.put("/scheduler/fairness", {"halfLifeHours": 1.5}))["version"] == 1
    assert (await shared.get("/scheduler/snapshot"))["half_life_ms"] == 5_400_000
    off = await shared.put("/scheduler/fairness", {"halfLifeHours": None, "version": 1})
    assert (off["halfLifeHours"], off["changedBy"]) == (None, "admin")
    assert (await shared.get("/scheduler/snapshot"))["half_life_ms"] is None


async def test_who_goes_first_is_set_for_each_virtual_cluster(shared: Sharing) -> None:
    assert (await shared.get("/scheduler/orders"))["orders"] == {}
    assert (await shared.put("/scheduler/orders", {"orders": {"vision": "shortest"}}))["version"] == 1
    assert (await shared.get("/scheduler/snapshot"))["orders"] == {"vision": "shortest"}
    changed = await shared.put("/scheduler/orders", {"orders": {}, "version": 1})
    assert (changed["orders"], changed["changedBy"]) == ({}, "admin")
    assert (await shared.get("/scheduler/snapshot"))["orders"] == {}


async def test_whether_jobs_may_be_interrupted_stays_until_it_is_set_again(shared: Sharing) -> None:
    hangs = {"orders": {}, "hangMinutes": {"vision": 30, "speech": 0}}
    assert (await shared.put("/scheduler/orders", hangs))["hangMinutes"] == {"vision": 30}
    output = {"orders": {}, "interruptible": {"vision": True}}
    assert (await shared.put("/scheduler/orders", {"orders": {}, "moveJobs": {"vision": True}}))["interruptible"] == {}
    assert (await shared.put("/scheduler/orders", output))["interruptible"] == {"vision": True}
    assert (await shared.get("/virtual-clusters/vision"))["moveJobs"] is True
    fifo = await shared.put("/scheduler/orders", {"orders": {"vision": "fifo"}})
    assert (fifo["interruptible"], fifo["hangMinutes"]) == ({"vision": True}, {"vision": 30})
    own = "{hivedScheduler: {interruptible: %s}}"
    for name, vc, extras in (
        ("by-vc", "vision", "{}"),
        ("by-file", "speech", own % "true"),
        ("not", "vision", own % "false"),
    ):
        await shared.submit(name, vc, extras=extras)
    assert [(await shared.get(f"/jobs/{name}"))["interruptible"] for name in ("by-vc", "by-file", "not")] == [1, 1, 0]
    # Any server knows it.
    leading = shared.server.api.state.context.services.platform
    commands = VirtualClusterCommands(leading._store, leading._settings, leading._clock)
    assert await commands.interruptible_clusters() == {"vision"}
    vision = (await shared.get("/virtual-clusters"))["vision"]
    assert (vision["order"], vision["interruptible"], vision["resourcesLent"]["gpu"]) == ("fifo", True, 0)
    assert (await shared.put("/scheduler/orders", output | {"interruptible": {}}))["interruptible"] == {}


async def test_a_saved_job_is_remembered(shared: Sharing) -> None:
    await shared.submit("train", "vision", 8)
    await shared.until("train", "RUNNING")
    assert (await shared.ask("POST", "/jobs/train/checkpoint")).status_code == 200
    gangs = (await shared.get("/scheduler/snapshot"))["core"]["gangs"]
    assert [gang["checkpoint_ms"] is not None for gang in gangs] == [True]


async def test_a_snapshot_gives_the_same_answer_elsewhere(shared: Sharing) -> None:
    await shared.submit("first", "speech", 8)
    await shared.until("first", "RUNNING")
    await shared.submit("next", "speech", 8)
    wait = await shared.until_it_waits("next")
    data = await shared.get("/scheduler/snapshot")
    (gang,) = [row["gang"]["id"] for row in data["waiting"]]
    replayed = answer(data, gang)
    assert replayed["decision"] == "wait"
    assert (replayed["why"]["code"], replayed["why"]["message"]) == (wait["code"], wait["message"])


async def test_users_see_everything_and_change_nothing(shared: Sharing) -> None:
    await shared.add_user("ann", "speech")
    await shared.submit("train", "speech", 8, user="ann")
    for path in ("/virtual-clusters", "/cluster/sku-types", "/nodes", "/scheduler/fairness"):
        assert (await shared.ask("GET", path, "ann")).status_code == 200
    for method, path, body in (
        ("PUT", "/virtual-clusters/speech", {"promise": "3 nodes"}),
        ("DELETE", "/virtual-clusters/speech", None),
        ("PUT", "/cluster/config", {"promises": "ann: 4 nodes"}),
        ("GET", "/cluster/config", None),
        ("PUT", "/nodes/node-01", {"drained": True}),
        ("DELETE", "/nodes/node-01", None),
        ("PUT", "/lemons", {"threshold": 1}),
        ("PUT", "/scheduler/fairness", {"halfLifeHours": None}),
        ("GET", "/scheduler/snapshot", None),
        ("PUT", "/jobs/train/rank", {"value": "front"}),
    ):
        assert await shared.refused(method, path, "ann", json=body) == (403, "ForbiddenUserError"), path
    assert (await shared.ask("PUT", "/jobs/train/priority", "ann", json={"value": "test"})).status_code == 200
    assert (await shared.ask("POST", "/jobs/train/checkpoint", "ann")).status_code == 200


async def test_a_running_job_gets_and_loses_tasks(shared: Sharing) -> None:
    await shared.submit("train", "vision", 2)
    await shared.until("train", "RUNNING")
    (role,) = (await shared.get("/jobs/train"))["taskRoles"]
    await shared.put("/jobs/train/taskRoles", {"taskRoles": {role: {"instances": 2}}})

    async def tasks() -> list[tuple[str, bool]]:
        found = (await shared.get("/jobs/train"))["taskRoles"][role]["taskStatuses"]
        return [(one["taskState"], one["isRemoved"]) for one in found]

    async def become(*wanted: tuple[str, bool]) -> None:
        for _ in range(1500):
            if await tasks() == list(wanted):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(await tasks())

    await become(("RUNNING", False), ("RUNNING", False))
    assert (await shared.get("/jobs"))[0]["totalTaskNumber"] == 2
    await shared.put("/jobs/train/taskRoles", {"taskRoles": {role: {"instances": 1}}})
    await become(("RUNNING", False), ("STOPPED", True))
    # What a role lost keeps its history.
    path = f"/jobs/train/attempts/0/taskRoles/{role}/taskIndex/1/attempts"
    assert (await shared.get(path))["attempts"][0]["containerExitSpec"]["phrase"] == "DeleteTaskRequested"
    answer = await shared.ask("PUT", "/jobs/train/taskRoles", json={"taskRoles": {role: {"instances": 500}}})
    assert (answer.status_code, "500 GPUs" in answer.text or "1000 GPUs" in answer.text) == (400, True), answer.text
