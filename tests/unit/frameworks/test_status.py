"""The status of a Framework: complete for small jobs, bounded for large ones, the same for the same job."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from openpai.client.model import JobDetail
from openpai.frameworks.objects import Framework
from openpai.frameworks.status import condition, conditions, rescale_condition, status_of


def job(tasks: int, state: str = "RUNNING", **head: Any) -> JobDetail:
    status = {"username": "ann", "state": state, "subState": "AttemptRunning", "attemptId": 1, "retries": 1}
    task = {"taskState": "RUNNING", "attemptId": 0, "containerExitDiagnostics": "x" * 5000, "containerNodeName": "n"}
    document = {
        "name": "train",
        "debugId": "id",
        "jobStatus": {**status, "submissionTime": 1_000_000, **head},
        "taskRoles": {"w": {"taskStatuses": [{**task, "taskIndex": index, "retries": 0} for index in range(tasks)]}},
    }
    return JobDetail.read(document)


def framework(tasks: int, **status: Any) -> Framework:
    role = {"name": "w", "taskNumber": tasks}
    return msgspec.convert({"metadata": {"name": "f"}, "spec": {"taskRoles": [role]}, "status": status}, Framework)


def test_ten_thousand_tasks_are_counted_and_fit_into_etcd() -> None:
    found = status_of(framework(10_000), job(10_000))
    (role,) = found["attemptStatus"]["taskRoleStatuses"]
    assert role["taskCounts"] == {"AttemptRunning": 10_000}
    assert len(role["taskStatuses"]) + role["taskStatusesOmitted"] == 10_000
    assert len(role["taskStatuses"]) > 300
    assert 150_000 < len(json.dumps(found)) < 250_000


def test_a_stopped_job_has_frameworkcontrollers_code_and_diagnostics_are_cut() -> None:
    ended = job(
        1, "STOPPED", appExitCode=143, appCompletedTime=2_000, appExitDiagnostics="y" * 9000, subState="Completed"
    )
    found = status_of(framework(1), ended)["attemptStatus"]["completionStatus"]
    assert (found["code"], found["phrase"]) == (-210, "StopFrameworkRequested")
    assert found["type"] == {"name": "Failed", "attributes": ["Permanent"]}
    assert len(found["diagnostics"]) == 2000


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = conditions(framework(1), [condition("Accepted", "True", "A", "a")], 1_000)
    again = conditions(framework(1, conditions=first), [condition("Accepted", "True", "A", "b")], 9_000_000)
    assert again[0]["lastTransitionTime"] == first[0]["lastTransitionTime"] == "1970-01-01T00:00:01Z"
    changed = conditions(framework(1, conditions=first), [condition("Accepted", "False", "A", "b")], 9_000_000)
    assert changed[0]["lastTransitionTime"] == "1970-01-01T02:30:00Z"


def test_a_change_of_task_numbers_is_reported_with_both() -> None:
    assert rescale_condition(framework(2), job(2)) is None
    found = rescale_condition(framework(3), job(2))
    assert found is not None
    assert "asks for 3 tasks, and its job has 2" in found["message"]
    assert (found["status"], found["reason"]) == ("False", "Pending")
    assert rescale_condition(framework(3), job(2), "beyond a quota")["reason"] == "Refused"  # type: ignore[index]
    over = rescale_condition(framework(2, conditions=[found]), job(2))
    assert over is not None
    assert (over["status"], over["reason"]) == ("True", "Done")
    assert rescale_condition(framework(3), job(2, "SUCCEEDED")) is None
