"""What needs attention, what runs where in Kubernetes' shapes, and how to get into a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openpai.lifecycle.model import AttemptKey

from .api_world import Here, World, job_file

MINUTE = 60_000


def names(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (each["labels"]["alertname"], each["labels"].get("job_name") or each["labels"]["node_name"]) for each in found
    ]


async def test_a_healthy_platform_reports_only_its_bad_gpu(world: World) -> None:
    [found] = await world.get("/alerts", "root")
    assert found["labels"] == {
        "alertname": "NodeGpuBad",
        "severity": "error",
        "node_name": "n1",
        "instance": "10.0.0.1",
        "minor_number": "1",
    }
    assert found["annotations"]["summary"] == "GPU 1 of node n1 is bad and is not used"
    assert found["status"] == {"state": "active", "silencedBy": [], "inhibitedBy": []}
    assert found["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert await world.get("/alerts", "ann") == []


async def test_nodes_that_are_away_or_drained_are_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    away = replace(
        Here.node,
        is_healthy=False,
        message="no answer for 60 s",
        is_drained=True,
        drained_because="disk",
        bad_devices=(),
    )
    monkeypatch.setattr(Here, "node", away)
    found = await world.get("/alerts", "root")
    assert names(found) == [("NodeNotReady", "n1"), ("NodeDrained", "n1")]
    assert [each["annotations"]["summary"] for each in found] == [
        "node n1 is not ready: no answer for 60 s",
        "node n1 is drained and takes nothing new: disk",
    ]


async def test_a_long_wait_is_reported_to_the_owner_and_administrators_only(world: World) -> None:
    await world.submit("mine", "ann")
    await world.submit("theirs", "bob")
    assert await world.get("/alerts", "ann") == []
    world.clock.at_ms += 30 * MINUTE
    [found] = await world.get("/alerts", "ann")
    assert found["labels"] == {
        "alertname": "PaiJobPending",
        "severity": "warn",
        "job_name": "ann~mine",
        "username": "ann",
        "vc_name": "default",
    }
    assert found["startsAt"] == "2023-11-14T22:43:20.000Z"
    again = await world.get("/alerts", "ann")
    assert again[0]["fingerprint"] == found["fingerprint"]
    everything = names(await world.get("/alerts", "root"))
    assert everything[1:] == [("PaiJobPending", "ann~mine"), ("PaiJobPending", "bob~theirs")]
    await world.ask("PUT", "/jobs/mine/executionType", json={"value": "STOP"})
    assert await world.get("/alerts", "ann") == []


async def test_a_job_that_got_its_resources_and_does_not_start_is_reported(world: World) -> None:
    id_ = await world.submit("slow")
    await world.grant()
    world.clock.at_ms += 29 * MINUTE
    assert await world.get("/alerts", "ann") == []
    world.clock.at_ms += MINUTE
    assert names(await world.get("/alerts", "ann")) == [("PaiJobStarting", "ann~slow")]
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    assert await world.get("/alerts", "ann") == []


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_nodes_are_reported_as_kubernetes_would(world: World, version: str) -> None:
    headers = await world.login("root")
    message = (await world.http.get(f"/api/{version}/kubernetes/nodes", headers=headers)).json()
    assert (message["kind"], message["apiVersion"]) == ("NodeList", "v1")
    [node] = message["items"]
    assert node["metadata"]["name"] == "n1"
    assert node["status"]["capacity"] == {"cpu": "4", "memory": "4096Mi", "nvidia.com/gpu": "2"}
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert node["status"]["conditions"][0]["status"] == "True"
    assert {"type": "InternalIP", "address": "10.0.0.1"} in node["status"]["addresses"]
    refused = await world.ask("GET", "/kubernetes/nodes", "ann")
    assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError")


async def test_what_runs_is_reported_as_pods_and_found_by_its_labels(world: World) -> None:
    first = await world.submit("first", gpus=2)
    await world.submit("second", "bob", instances=2)
    await world.submit("over", "bob")
    await world.grant()
    await world.started(AttemptKey(first, 0, "worker", 0, 0))
    await world.submit("waiting")

    async def pods(**params: str) -> list[dict[str, Any]]:
        message = await world.get("/kubernetes/pods", "root", **params)
        assert message["kind"] == "PodList"
        found: list[dict[str, Any]] = message["items"]
        return found

    assert len(await pods()) == 4
    [pod] = await pods(labelSelector=f"userName=ann, FC_FRAMEWORK_NAME={first}")
    assert (pod["metadata"]["uid"], pod["metadata"]["namespace"]) == (f"{first}.0.worker.0.0", "default")
    assert (pod["status"]["phase"], pod["status"]["podIP"], pod["spec"]["nodeName"]) == ("Running", "10.0.0.1", "n1")
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert {each["status"]["phase"] for each in await pods(labelSelector="userName==bob")} == {"Pending"}
    assert pod["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
    assert await pods(labelSelector="jobName=bob~second,FC_TASK_INDEX=7") == []
    # OpenPAI's page of services asks for pods of services like this, and has none of a job.
    assert (len(await pods(labelSelector="jobName")), await pods(labelSelector="jobName,app")) == (4, [])
    assert (len(await pods(namespace="default")), await pods(namespace="kube-system")) == (4, [])
    await world.commands.stop("bob", "over", "bob")
    refused = await world.ask("GET", "/kubernetes/pods", "root", params={"labelSelector": "userName in (ann)"})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")
    assert (await world.ask("GET", "/kubernetes/pods", "ann")).status_code == 403


async def test_a_task_with_a_port_for_ssh_says_how_to_get_in(world: World) -> None:
    text = job_file("shell").replace("gpu: 0}", "gpu: 0, ports: {ssh: 1}}")
    await world.ask("POST", "/jobs", content=text.encode())
    await world.submit("closed")
    waits = await world.ask("GET", "/jobs/shell/ssh")
    assert (waits.status_code, waits.json()["code"]) == (404, "NoJobSshInfoError")
    assert waits.json()["advice"] == "wait until it runs"
    await world.grant()
    id_ = await world.commands._find("ann", "shell")
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    message = await world.get("/jobs/shell/ssh")
    [port] = (await world.get("/jobs/shell"))["taskRoles"]["worker"]["taskStatuses"][0]["containerPorts"].values()
    assert message == {
        "containers": [
            {
                "id": f"{id_}.0.worker.0.0",
                "taskRoleName": "worker",
                "taskIndex": 0,
                "sshIp": "10.0.0.1",
                "sshPort": port,
                "command": f"ssh -p {port} root@10.0.0.1",
            }
        ]
    }
    none = await world.ask("GET", "/jobs/closed/ssh")
    assert (none.status_code, "ports: {ssh: 1}" in none.json()["advice"]) == (404, True)
