"""Jobs over HTTP: submitting, reading, starting and stopping them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from openpai.api.routes import jobs as routes
from openpai.api.task_cache import TASKS_OF_SMALL
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.stored_jobs import TAGS_MAX
from openpai.ports.cluster_settings import CLUSTER
from openpai.ports.task_usage import Counters, DeviceUse, TaskSample
from openpai.protocol import reading
from openpai.store.cluster_settings import SqlSettingsStore

from .api_world import World, job_file
from .job_acts import failed_once, refused, submitted


@pytest.mark.parametrize("kind", ["text/yaml", "text/plain", "application/json", "application/octet-stream", None])
async def test_a_job_file_is_accepted_whatever_it_is_called(world: World, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = await world.ask("POST", "/jobs", content=job_file().encode(), headers=headers)
    assert answer.status_code == 202
    assert answer.json() == {
        "status": 202,
        "message": "job ann~train was submitted",
        "user": "ann",
        "name": "train",
        "id": await world.commands._find("ann", "train"),
        "warnings": [],
    }


@pytest.mark.parametrize(
    "text",
    [b"", b"a: [", b"- a list", b"\xff\xfe\x00", b"just words", b"protocolVersion: 2\nname: x\ntype: job\n"],
)
async def test_what_is_no_job_file_is_refused_by_name(world: World, text: bytes) -> None:
    answer = await world.ask("POST", "/jobs", content=text)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidProtocolError")
    assert answer.json()["faults"]
    assert await world.get("/jobs") == []


async def test_every_fault_of_a_job_file_is_reported_with_its_line(world: World) -> None:
    text = job_file().replace("dockerImage: image", "dockerImage: imagine").replace("instances: 1", "instances: zero")
    answer = await world.ask("POST", "/jobs", content=text.encode())
    paths = {fault["path"]: fault for fault in answer.json()["faults"]}
    assert answer.status_code == 400
    assert paths.keys() == {"taskRoles.worker.instances", "taskRoles.worker.dockerImage"}
    assert paths["taskRoles.worker.dockerImage"]["suggestion"] == "image"
    assert all(isinstance(fault["line"], int) for fault in paths.values())


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_job_file_of_the_greatest_length_keeps_no_other_request_waiting(
    world: World, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = job_file().replace('["true"]', "[" + "a," * 300_000 + "]")
    if method == "GET":
        assert (await world.ask("POST", "/jobs", content=text.encode())).status_code == 202
    begun, answered = threading.Event(), threading.Event()
    module, name = (reading, "read_job") if method == "POST" else (routes, "masked_yaml")
    real = getattr(module, name)

    def patient(*given: Any) -> Any:
        begun.set()
        assert answered.wait(60), "no other request was answered meanwhile"
        return real(*given)

    monkeypatch.setattr(module, name, patient)
    path = "/jobs" if method == "POST" else "/jobs/ann~train/config"
    asked = asyncio.create_task(world.ask(method, path, content=text.encode() if method == "POST" else b""))
    assert await asyncio.to_thread(begun.wait, 60)
    assert (await world.ask("GET", "/jobs")).status_code == 200
    answered.set()
    assert (await asked).status_code in (200, 202)


async def test_a_name_is_used_once_by_each_user(world: World) -> None:
    await world.submit()
    assert await refused(world, "POST", "/jobs", content=job_file().encode()) == (409, "ConflictJobError")
    assert (await world.ask("POST", "/jobs", "bob", content=job_file().encode())).status_code == 202


async def test_a_virtual_cluster_that_is_not_there_or_not_ours_is_refused(world: World) -> None:
    submit = {"content": job_file(more="defaults: {virtualCluster: vision}").encode()}
    assert await refused(world, "POST", "/jobs", **submit) == (404, "NoVirtualClusterError")
    commands = {"promises": "vision: 1 nodes"}
    await SqlSettingsStore(world.database).set_setting(CLUSTER, commands, by="root", at_ms=world.clock.at_ms)
    assert await refused(world, "POST", "/jobs", **submit) == (403, "ForbiddenUserError")


async def test_a_waiting_job_lists_what_it_waits_for(world: World) -> None:
    id_ = await submitted(world)
    detail = await world.get("/jobs/ann~train")
    assert await world.get("/jobs/train") == detail
    status = detail["jobStatus"]
    assert (detail["debugId"], detail["name"], detail["tags"], detail["jobPriority"]) == (id_, "train", [], None)
    assert (status["state"], status["subState"], status["executionType"]) == (
        "WAITING",
        "AttemptCreationPending",
        "START",
    )
    assert (status["attemptId"], status["attemptState"], status["appExitCode"], status["appExitSpec"]) == (
        0,
        "WAITING",
        None,
        None,
    )
    assert status["submissionTime"] == status["createdTime"] == world.clock.at_ms
    assert list(detail["taskRoles"]) == ["worker", "Chief"]
    assert detail["taskRoles"]["worker"]["taskRoleStatus"] == {"name": "worker"}
    [first, second] = detail["taskRoles"]["worker"]["taskStatuses"]
    assert (first["taskIndex"], second["taskIndex"]) == (0, 1)
    assert first["taskState"] == first["attemptState"] == "WAITING"
    assert [first[key] for key in ("attemptId", "containerId", "containerIp", "containerLog", "containerExitCode")] == [
        None
    ] * 5
    assert first["containerPorts"] == {}


async def test_a_running_job_says_where_its_tasks_are(world: World) -> None:
    id_ = await submitted(world)
    await world.grant()
    detail = await world.get("/jobs/ann~train")
    assert (detail["jobStatus"]["state"], detail["jobStatus"]["subState"]) == ("WAITING", "AttemptPreparing")
    await world.started(AttemptKey(id_, 0, "worker", 1, 0))
    detail = await world.get("/jobs/ann~train")
    status = detail["jobStatus"]
    assert (status["state"], status["subState"], status["attemptState"]) == ("RUNNING", "AttemptRunning", "RUNNING")
    assert status["launchedTime"] == status["appLaunchedTime"] == world.clock.at_ms
    [first, second] = detail["taskRoles"]["worker"]["taskStatuses"]
    assert (first["taskState"], second["taskState"]) == ("WAITING", "RUNNING")
    assert (second["containerIp"], second["containerNodeName"]) == ("10.0.0.1", "n1")
    assert (first["containerGpus"], second["containerGpus"]) == ("0", "10")
    assert detail["taskRoles"]["Chief"]["taskStatuses"][0]["containerGpus"] == ""
    assert second["containerPorts"] == {"rpc": "20010,20011"}
    place = "/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/1/attempts/0/logs"
    assert second["containerLog"] == place
    assert (second["attemptId"], second["currentAttemptLaunchedTime"]) == (0, world.clock.at_ms)


@pytest.mark.parametrize("body", [{"value": "stop"}, {"value": 1}, {}, {"value": "STOP", "more": 1}, "STOP"])
async def test_only_start_and_stop_can_be_requested(world: World, body: object) -> None:
    await submitted(world)
    promise = ("PUT", "/jobs/ann~train/executionType")
    assert await refused(world, *promise, json=body) == (400, "InvalidParametersError")


async def test_the_config_is_yaml_without_secrets(world: World) -> None:
    await submitted(world)
    answer = await world.ask("GET", "/jobs/ann~train/config")
    assert answer.headers["content-type"] == "text/yaml; charset=utf-8"
    assert "name: train" in answer.text
    assert "opensesame" not in answer.text
    assert "******" in answer.text


async def test_events_are_a_history_newest_first(world: World) -> None:
    id_ = await failed_once(world)
    found = await world.get("/jobs/ann~train/events")
    reasons = [event["reason"] for event in found["data"]]
    assert found["totalCount"] == len(reasons)
    assert reasons[-1] == "Submitted"
    assert reasons.index("TaskFailed") > reasons.index("Retried")
    [failed] = [event for event in found["data"] if event["reason"] == "TaskFailed"]
    assert (failed["type"], failed["taskroleName"], failed["taskIndex"]) == ("Warning", "worker", 0)
    assert (failed["podUid"], failed["sourceHost"], failed["count"]) == (f"{id_}.0.worker.0.0", "n1", 1)
    assert failed["firstTimestamp"] == failed["lastTimestamp"] == "2023-11-14T22:13:22.000Z"
    warnings = await world.get("/jobs/ann~train/events", type="Warning")
    normal = await world.get("/jobs/ann~train/events", type="Normal")
    assert {event["type"] for event in warnings["data"]} == {"Warning"}
    assert warnings["totalCount"] + normal["totalCount"] == found["totalCount"]
    assert await refused(world, "GET", "/jobs/ann~train/events?type=Bad") == (400, "InvalidParametersError")


async def test_a_waiting_job_says_why(world: World) -> None:
    await world.submit("first")
    await world.submit("second")
    assert (await world.get("/jobs/first/why"))["waits"] == []
    assert (await world.get("/jobs/second/why"))["waits"] == [
        {
            "code": "NOT_ENOUGH_FREE",
            "message": "2 of 2 GPUs are in use",
            "unblock": "wait for ann~first to end",
            "ahead": ["ann~first"],
            "position": 1,
            "estimate": None,
            "more": 0,
            "lent": [],
            "lentBackSeconds": 30.0,
            "interruptible": False,
        }
    ]


async def test_tags_come_and_go(world: World) -> None:
    await submitted(world)
    for _ in range(2):
        assert (await world.ask("PUT", "/jobs/ann~train/tag", json={"value": "best"})).status_code == 200
    assert (await world.get("/jobs/ann~train"))["tags"] == ["best"]
    assert (await world.ask("DELETE", "/jobs/ann~train/tag", json={"value": "best"})).status_code == 200
    assert await refused(world, "DELETE", "/jobs/ann~train/tag", json={"value": "best"}) == (404, "NoTagError")
    for bad in ("a,b", "", "a\x00b", "x" * 256):
        promise = ("PUT", "/jobs/ann~train/tag")
        assert await refused(world, *promise, json={"value": bad}) == (400, "InvalidParametersError")


async def test_a_job_has_no_more_tags_than_a_list_can_carry(world: World) -> None:
    await submitted(world)
    tag = ("PUT", "/jobs/ann~train/tag")
    for number in range(TAGS_MAX):
        assert (await world.ask(*tag, json={"value": f"tag {number}"})).status_code == 200
    assert await refused(world, *tag, json={"value": "one more"}) == (400, "InvalidParametersError")
    assert (await world.ask(*tag, json={"value": "tag 0"})).status_code == 200
    assert len((await world.get("/jobs/ann~train"))["tags"]) == TAGS_MAX


async def test_a_file_sent_again_because_the_answer_was_lost_is_one_job(world: World) -> None:
    headers = {"Idempotency-Key": "a-word-of-mine"}
    answers = [await world.ask("POST", "/jobs", content=job_file().encode(), headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(await world.get("/jobs")) == 1
    assert (await world.ask("POST", "/jobs", "bob", content=job_file().encode(), headers=headers)).status_code == 202
    for changed in (job_file("other"), job_file(instances=2), job_file(more="secrets: {word: hush}")):
        message = await world.ask("POST", "/jobs", content=changed.encode(), headers=headers)
        assert (message.status_code, message.json()["code"]) == (409, "ConflictJobError")
        assert "used this idempotency key for another file, which became job ann~train" in message.json()["message"]
    assert (await world.ask("POST", "/jobs", content=b"no: job", headers=headers)).status_code == 400
    other = await world.ask("POST", "/jobs", content=job_file().encode(), headers={"Idempotency-Key": "another"})
    assert (other.status_code, other.json()["code"]) == (409, "ConflictJobError")
    for bad in ("two words", "x" * 256):
        refusal = await world.ask("POST", "/jobs", content=job_file("more").encode(), headers={"Idempotency-Key": bad})
        assert (refusal.status_code, refusal.json()["code"]) == (400, "InvalidParametersError")


@pytest.mark.parametrize("path", ["", "/config", "/events", "/why", "/ssh", "/attempts/0", "/job-attempts"])
async def test_a_job_that_does_not_exist_is_not_found(world: World, path: str) -> None:
    for name in ("ann~none", "none", "~", "ann~", "~train"):
        assert await refused(world, "GET", f"/jobs/{name}{path}") == (404, "NoJobError")


async def test_a_task_that_does_not_exist_is_called_by_its_name(world: World) -> None:
    await submitted(world)
    for role, index in (("worker", 9), ("nobody", 0)):
        answer = await world.ask("GET", f"/jobs/ann~train/attempts/0/taskRoles/{role}/taskIndex/{index}/attempts")
        assert (answer.status_code, answer.json()["code"]) == (404, "NoJobError")
        assert answer.json()["message"] == f"job ann~train has no task '{role}-{index}'"


async def test_ssh_information_does_not_exist(world: World) -> None:
    await submitted(world)
    assert await refused(world, "GET", "/jobs/ann~train/ssh") == (404, "NoJobSshInfoError")


async def test_nodes_say_how_much_of_them_is_used(world: World) -> None:
    assert await world.get("/nodes") == [
        {
            "name": "n1",
            "address": "10.0.0.1",
            "healthy": True,
            "message": "",
            "gpuModel": "H200",
            "cpus": {"total": 4, "used": 1},
            "memoryMB": {"total": 4096, "used": 64},
            "gpus": {"total": 2, "used": 1},
            "badDevices": [1],
            "badBecause": "",
            "tasks": 1,
            "drained": False,
            "drainedBecause": "",
            "drainDeadline": None,
            "virtualClusters": [],
            "lemonScore": 0.0,
            "lemonUsers": 0,
            "temperatures": {},
        }
    ]


async def test_a_large_job_is_computed_once_for_all_readers_and_again_when_it_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = await world.submit("large", instances=TASKS_OF_SMALL + 1, more="extras: {gangAllocation: false}")
    asked = 0
    real = world.queries.task_attempts

    async def counted(*about: Any) -> Any:
        nonlocal asked
        asked += 1
        return await real(*about)

    monkeypatch.setattr(world.queries, "task_attempts", counted)
    first = await world.get("/jobs/ann~large")
    again = await asyncio.gather(*(world.get("/jobs/ann~large") for _ in range(5)))
    assert asked == 1
    assert all(each == first for each in again)
    assert len(first["taskRoles"]["worker"]["taskStatuses"]) == TASKS_OF_SMALL + 1
    await world.grant()
    await world.started(AttemptKey(id_, 0, "worker", 3, 0))
    changed = (await world.get("/jobs/ann~large"))["taskRoles"]["worker"]["taskStatuses"]
    assert changed[3]["taskState"] == "RUNNING"
    assert asked == 2
    line = "the secret of ann"
    await world.exited(AttemptKey(id_, 0, "worker", 3, 0), 1, f"Traceback:\nValueError: {line}\n")
    assert line in (await world.ask("GET", "/jobs/ann~large")).text
    assert line not in (await world.ask("GET", "/jobs/ann~large", "bob")).text


async def test_what_the_tasks_of_a_job_use(world: World) -> None:
    job = await world.submit()
    await world.grant()
    world.commands.leader = object()
    key = AttemptKey(job, 0, "worker", 0, 0)
    assert (await world.get("/jobs/ann~train/usage")) == {"tasks": []}
    gpu = DeviceUse(3, 100.0, 0.0, 10, 80, 612.5, 700.0, 64)
    for at_ms, cpu_s in ((1000, 1.0), (3000, 4.0)):
        samples = [TaskSample(key, at_ms, Counters(cpu_s, 5, 6), 1 << 20, 3, 1, (gpu,))]
        world.commands.measures.learn([*samples, TaskSample(replace(key, job="b" * 32), at_ms, Counters())])
    [task] = (await world.get("/jobs/ann~train/usage"))["tasks"]
    assert (task["taskRoleName"], task["cpus"], task["cpusRequested"], task["stoppedProcesses"]) == (
        "worker",
        1.5,
        1,
        1,
    )
    assert (task["diskReadBytes"], task["networkSentBytes"], task["gpus"][0]["powerWatts"]) == (5, None, 612.5)
