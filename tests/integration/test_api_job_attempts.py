"""Attempts of jobs and tasks over HTTP: how each began, ended, and why."""

from __future__ import annotations

from openpai.lifecycle.facts import Preempted
from openpai.lifecycle.model import AttemptKey

from .api_world import World, job_file
from .job_acts import failed_once, refused, submitted


async def test_each_attempt_of_a_job_stays_readable(world: World) -> None:
    id_ = await failed_once(world)
    now = await world.get("/jobs/ann~train")
    assert now == await world.get("/jobs/ann~train/attempts/1")
    assert (now["jobStatus"]["attemptId"], now["jobStatus"]["retries"]) == (1, 1)
    assert now["jobStatus"]["retryDetails"] == {"user": 1, "platform": 0, "resource": 0}
    past = await world.get("/jobs/ann~train/attempts/0")
    status = past["jobStatus"]
    assert (status["state"], status["attemptId"], status["attemptState"]) == ("WAITING", 0, "FAILED")
    assert (status["appExitCode"], status["appExitType"], status["appProgress"]) == (3, "UNKNOWN_FAILURE", 1)
    assert status["appExitSpec"]["code"] == 255
    assert (status["appExitTriggerTaskRoleName"], status["appExitTriggerTaskIndex"]) == ("worker", 0)
    assert status["appExitTriggerMessage"] in status["appExitDiagnostics"]
    assert status["appExitMessages"]["runtime"]["originUserExitCode"] == 3
    assert status["appExitMessages"]["container"] is None
    tasks = past["taskRoles"]["worker"]["taskStatuses"]
    assert [task["taskState"] for task in tasks] == ["FAILED", "STOPPED"]
    assert [task["containerExitCode"] for task in tasks] == [3, 143]
    assert tasks[1]["containerExitSpec"]["code"] == -220
    assert past["taskRoles"]["Chief"]["taskStatuses"][0]["containerExitSpec"]["phrase"] == "Succeeded"
    assert tasks[0]["containerId"] == f"{id_}.0.worker.0.0"
    assert await refused(world, "GET", "/jobs/ann~train/attempts/2") == (404, "NoJobError")
    assert await refused(world, "GET", "/jobs/ann~train/attempts/x") == (400, "InvalidParametersError")
    assert await refused(world, "GET", f"/jobs/ann~train/attempts/{10**30}") == (400, "InvalidParametersError")


async def test_the_deprecated_attempts_are_still_there(world: World) -> None:
    id_ = await failed_once(world)
    latest, first = await world.get("/jobs/ann~train/job-attempts")
    assert (latest["attemptIndex"], latest["isLatest"], latest["exitDiagnostics"]) == (1, True, None)
    assert (first["attemptIndex"], first["isLatest"], first["state"]) == (0, False, "FAILED")
    assert (first["exitCode"], first["frameworkName"], first["userName"], first["jobName"]) == (3, id_, "ann", "train")
    assert first["exitDiagnostics"]["runtime"]["originUserExitCode"] == 3
    assert first["exitDiagnostics"]["runtime"]["name"] == "app"
    assert first["taskRoles"]["worker"]["taskStatuses"][0]["containerExitCode"] == 3
    assert (first["totalTaskNumber"], first["totalGpuNumber"], first["totalTaskRoleNumber"]) == (3, 2, 2)
    assert await world.get("/jobs/ann~train/job-attempts/0") == first
    assert await refused(world, "GET", "/jobs/ann~train/job-attempts/7") == (404, "NoJobError")
    healthy = await world.ask("GET", "/jobs/ann~train/job-attempts/healthz")
    assert (healthy.status_code, healthy.text) == (200, "ok")


async def test_a_task_lists_all_its_attempts_newest_first(world: World) -> None:
    text = job_file(more="").replace("instances: 1", "instances: 1\n    taskRetryCount: 2")
    id_ = await submitted(world, text)
    await world.grant()
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    await world.exited(AttemptKey(id_, 0, "worker", 0, 0), 9)
    await world.started(AttemptKey(id_, 0, "worker", 0, 1))
    path = "/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts"
    task = await world.get(path)
    assert (task["username"], task["jobName"], task["jobAttemptId"]) == ("ann", "train", 0)
    assert (task["taskRoleName"], task["taskIndex"], task["taskState"]) == ("worker", 0, "RUNNING")
    assert (task["retries"], task["accountableRetries"], task["completedTime"]) == (1, 1, None)
    assert [(each["attemptId"], each["attemptState"]) for each in task["attempts"]] == [(1, "RUNNING"), (0, "FAILED")]
    assert task["attempts"][1]["containerExitCode"] == 9
    assert task["launchedTime"] == task["attempts"][1]["currentAttemptLaunchedTime"]
    for wrong in ("taskRoles/other/taskIndex/0", "taskRoles/worker/taskIndex/1", "taskRoles/..%2F/taskIndex/0"):
        status, code = await refused(world, "GET", f"/jobs/ann~train/attempts/0/{wrong}/attempts")
        assert (status, code in ("NoJobError", "NoApiError")) == (404, True)


async def test_a_task_that_never_began_has_no_attempts(world: World) -> None:
    await submitted(world)
    path = "/jobs/ann~train/attempts/0/taskRoles/Chief/taskIndex/0/attempts"
    task = await world.get(path)
    assert (task["attempts"], task["taskState"], task["launchedTime"]) == ([], "WAITING", None)


async def test_a_job_that_is_stopped_before_it_began_says_so(world: World) -> None:
    await submitted(world)
    answer = await world.ask("PUT", "/jobs/ann~train/executionType", json={"value": "STOP"})
    assert (answer.status_code, answer.json()["status"]) == (202, 202)
    detail = await world.get("/jobs/ann~train")
    status = detail["jobStatus"]
    assert (status["state"], status["subState"], status["executionType"]) == ("STOPPED", "Completed", "STOP")
    assert (status["appExitCode"], status["appExitType"]) == (-210, "USER_STOP")
    assert status["launchedTime"] == status["completedTime"]
    task = detail["taskRoles"]["worker"]["taskStatuses"][0]
    assert (task["taskState"], task["containerExitCode"]) == ("STOPPED", -210)
    assert (task["containerId"], task["containerLog"]) == (None, None)
    assert (await world.ask("PUT", "/jobs/train/executionType", json={"value": "START"})).status_code == 202
    again = (await world.get("/jobs/ann~train"))["jobStatus"]
    assert (again["state"], again["attemptId"], again["executionType"]) == ("WAITING", 1, "START")
    # OpenPAI's clients ask for the attempts from 0 to this.
    assert (again["retries"], again["retryDetails"]) == (1, {"user": 0, "platform": 1, "resource": 0})


async def test_an_attempt_that_was_preempted_says_why_and_counts_as_free(world: World) -> None:
    id_ = await submitted(world)
    await world.grant()
    why = "bob~big needs these resources"
    await world.record(id_, Preempted(0, world.clock.at_ms, why))
    for key in (
        AttemptKey(id_, 0, "worker", 0, 0),
        AttemptKey(id_, 0, "worker", 1, 0),
        AttemptKey(id_, 0, "Chief", 0, 0),
    ):
        await world.exited(key, 143)
    now = (await world.get("/jobs/train"))["jobStatus"]
    assert (now["state"], now["attemptId"], now["retries"]) == ("WAITING", 1, 1)
    assert now["retryDetails"] == {"user": 0, "platform": 1, "resource": 0}
    past = (await world.get("/jobs/train/attempts/0"))["jobStatus"]
    assert (past["attemptState"], past["appExitCode"], past["appExitSpec"]["reason"]) == ("FAILED", -101, why)
