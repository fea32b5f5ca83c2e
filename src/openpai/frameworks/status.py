"""The status of a Framework in FrameworkController's shape, written from its job. Bounded in size.

Times come from the job, so that the same job gives the same status, which is not written twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.client.model import JobDetail, TaskView
from openpai.frameworks.job_file import minimum
from openpai.frameworks.objects import COMPLETED, CREATION_PENDING, Framework
from openpai.protocol.exit_codes import spec_for
from openpai.protocol.times import kubernetes_time
from openpai.protocol.wording import plural

TASKS_BYTES_MAX: Final = 200_000
"""What is written about single tasks; etcd refuses objects above 1.5 MiB."""
DIAGNOSTICS_MAX: Final = 2_000
TASK_DIAGNOSTICS_MAX: Final = 300
STOPPED_CODE: Final = -210
GONE_CODE: Final = -100

Status = dict[str, Any]
Numbers = dict[str, dict[str, int]]

_TASK_STATES: Final = {"WAITING": "AttemptPreparing", "RUNNING": "AttemptRunning", "STOPPING": "AttemptDeleting"}
_ATTRIBUTES: Final = {
    "TRANSIENT": ["Transient"],
    "TRANSIENT_CONFLICT": ["Transient", "Conflict"],
    "PERMANENT": ["Permanent"],
}


def status_of(framework: Framework, job: JobDetail) -> Status:
    """Return the status of a Framework whose job exists, without its conditions."""
    head: Mapping[str, Any] = job.document.get("jobStatus") or {}
    details = head.get("retryDetails") or {}
    state = str(head.get("subState") or CREATION_PENDING)
    times = _times(job.submitted_at_ms, job.started_at_ms, job.ended_at_ms if job.is_final else None)
    delay_s = head.get("retryDelayTime")
    return {
        **times,
        "state": state,
        "transitionTime": times["completionTime"] or times["runTime"] or times["startTime"],
        "retryPolicyStatus": _retries(job.retries, details.get("user", job.retries), delay_s),
        "job": job.full_name,
        "virtualCluster": job.virtual_cluster,
        "attemptStatus": _attempt(framework, job, head),
    }


def _attempt(framework: Framework, job: JobDetail, head: Mapping[str, Any]) -> Status:
    number = job.attempt or 0
    is_over = job.exit_code is not None and job.attempt_ended_at_ms is not None
    return {
        "id": number,
        **_times(head.get("appCreatedTime"), job.attempt_started_at_ms, job.attempt_ended_at_ms),
        "instanceUID": f"{number}_{job.document.get('debugId', '')}",
        "configMapName": f"{framework.name}-attempt",
        "configMapUID": job.document.get("debugId"),
        "completionStatus": _completion(job, head) if is_over else None,
        "taskRoleStatuses": _roles(framework, job),
    }


def _completion(job: JobDetail, head: Mapping[str, Any]) -> Status:
    code = STOPPED_CODE if job.state == "STOPPED" else job.exit_code or 0
    found = completion(code, job.exit_diagnostics, behavior=(head.get("appExitSpec") or {}).get("behavior"))
    if job.trigger_role:
        found["trigger"] = {
            "message": job.trigger_message[:TASK_DIAGNOSTICS_MAX],
            "taskRoleName": job.trigger_role,
            "taskIndex": job.trigger_index,
        }
    return found


def completion(code: int, diagnostics: str, *, behavior: str | None = None, limit: int = DIAGNOSTICS_MAX) -> Status:
    """Return how an attempt ended: code, phrase and type."""
    spec = spec_for(code)
    name = "Succeeded" if code == 0 else "Failed"
    attributes = [] if code == 0 else _ATTRIBUTES.get(behavior or spec.behavior, [])
    return {
        "code": code,
        "phrase": spec.phrase,
        "type": {"name": name, "attributes": attributes},
        "diagnostics": diagnostics[:limit],
    }


def _roles(framework: Framework, job: JobDetail) -> list[Status]:
    timeouts = {role.name: role.task.pod_graceful_deletion_timeout_sec for role in framework.spec.task_roles}
    left = TASKS_BYTES_MAX
    found = []
    by_role: dict[str, list[TaskView]] = {}
    for task in job.tasks:
        by_role.setdefault(task.role, []).append(task)
    for role in job.roles:
        tasks = by_role.get(role, [])
        statuses: list[Status] = []
        tasks = [task for task in tasks if not (task.is_removed and task.is_final)]
        for task in tasks:
            status = _task(framework, task)
            left -= len(json.dumps(status))
            if left < 0:
                break
            statuses.append(status)
        entry: Status = {
            "name": role,
            "podGracefulDeletionTimeoutSec": timeouts.get(role),
            "taskCounts": dict(sorted(Counter(map(_task_state, tasks)).items())),
            "taskStatuses": statuses,
        }
        if len(statuses) < len(tasks):
            entry["taskStatusesOmitted"] = len(tasks) - len(statuses)
        found.append(entry)
    return found


def _task_state(task: TaskView) -> str:
    if task.is_final:
        return COMPLETED
    if task.attempt is None:
        return CREATION_PENDING
    return _TASK_STATES.get(task.state, CREATION_PENDING)


def _task(framework: Framework, task: TaskView) -> Status:
    times = _times(task.started_at_ms, task.started_at_ms, task.ended_at_ms)
    ended = None
    if task.is_final and task.exit_code is not None:
        ended = completion(task.exit_code, task.exit_diagnostics, limit=TASK_DIAGNOSTICS_MAX)
        if task.state == "SUCCEEDED":
            ended["type"]["name"] = "Succeeded"
    return {
        "index": task.index,
        "state": _task_state(task),
        **times,
        "deletionPending": task.is_removed,
        "retryPolicyStatus": _retries(task.retries, int(task.document.get("accountableRetries") or 0), None),
        "attemptStatus": {
            "id": task.attempt or 0,
            "podName": f"{framework.name}-{task.role}-{task.index}",
            "podNodeName": task.node or None,
            "podIP": task.address or None,
            "completionStatus": ended,
        },
    }


def _retries(total: int, accountable: int, delay_s: int | None) -> Status:
    return {"totalRetriedCount": total, "accountableRetriedCount": accountable, "retryDelaySec": delay_s}


def _times(start_ms: int | None, run_ms: int | None, end_ms: int | None) -> Status:
    return {
        "startTime": kubernetes_time(start_ms),
        "runTime": kubernetes_time(run_ms),
        "completionTime": kubernetes_time(end_ms),
    }


def without_job(state: str, now_ms: int, ended: Status | None = None) -> Status:
    """Return the status of a Framework that has no job, or whose job is gone."""
    at = kubernetes_time(now_ms)
    return {
        "startTime": at,
        "runTime": None,
        "completionTime": at if ended else None,
        "state": state,
        "transitionTime": at,
        "retryPolicyStatus": _retries(0, 0, None),
        "attemptStatus": {"id": 0, "instanceUID": None, "completionStatus": ended, "taskRoleStatuses": []},
    }


def conditions(framework: Framework, wanted: Iterable[Status], now_ms: int) -> list[Status]:
    """Return conditions with the time of their last transition."""
    before = {one.get("type"): one for one in (framework.status or {}).get("conditions") or ()}
    return [
        {**one, "lastTransitionTime": _since(before.get(one["type"]), one) or kubernetes_time(now_ms)} for one in wanted
    ]


def _since(before: Mapping[str, Any] | None, now: Status) -> str | None:
    return before.get("lastTransitionTime") if before and before.get("status") == now["status"] else None


def condition(type_: str, status: str, reason: str, message: str) -> Status:
    """Return a condition."""
    return {"type": type_, "status": status, "reason": reason, "message": message[:DIAGNOSTICS_MAX]}


def numbers_to_change(framework: Framework, job: JobDetail) -> Numbers:
    """Return what a job's roles are to have where their numbers of tasks differ, in the words of the REST API."""
    has = _numbers(job)
    return {
        role.name: {
            "instances": role.task_number,
            "minFailedInstances": minimum(role.framework_attempt_completion_policy.min_failed_task_count),
            "minSucceededInstances": minimum(role.framework_attempt_completion_policy.min_succeeded_task_count),
        }
        for role in framework.spec.task_roles
        if role.task_number > 0 and has.get(role.name, role.task_number) != role.task_number
    }


def _numbers(job: JobDetail) -> Mapping[str, int]:
    return Counter(task.role for task in job.tasks if not task.is_removed)


def rescale_condition(
    framework: Framework, job: JobDetail, refused: str = "", *, was_rescaled: bool = False
) -> Status | None:
    """Return why a job's numbers of tasks are not those of its Framework; None if they are, and never differed.

    `refused` is the platform's answer to the request to change them.
    """
    has = _numbers(job)
    wants = {role.name: role.task_number for role in framework.spec.task_roles if role.task_number > 0}
    if job.is_final:
        return None
    roles = [role for role in dict.fromkeys([*wants, *has]) if (role in wants) is not (role in has)]
    differing = [
        f"task role {role} asks for {wants.get(role, 0)} tasks, and its job has {has.get(role, 0)}"
        for role in dict.fromkeys([*wants, *has])
        if wants.get(role, 0) != has.get(role, 0)
    ]
    if roles:
        message = "; ".join(differing[:5]) + ". Task roles cannot be added or removed; delete the object and apply it"
        return condition("Rescaled", "False", "NotSupported", message)
    if refused:
        return condition("Rescaled", "False", "Refused", f"{'; '.join(differing[:5])}: {refused}")
    if differing:
        return condition("Rescaled", "False", "Pending", "; ".join(differing[:5]))
    was = any(one.get("type") == "Rescaled" for one in (framework.status or {}).get("conditions") or ())
    leaving = sum(task.is_removed and not task.is_final for task in job.tasks)
    if not (was or was_rescaled or leaving):
        return None
    if leaving:
        return condition("Rescaled", "True", "TasksEnd", f"{plural(leaving, 'task')} that it no longer has still run")
    return condition("Rescaled", "True", "Done", "its job has the number of tasks that it asks for")
