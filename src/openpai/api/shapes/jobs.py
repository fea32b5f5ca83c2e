"""Jobs and their attempts in OpenPAI's shapes: list entries, details, and the older shape of an attempt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openpai.api.shapes.exits import cause, diagnostics, exit_messages, exit_spec
from openpai.api.shapes.job_attempts import AttemptView
from openpai.api.shapes.tasks import TaskHistory, progress
from openpai.lifecycle.model import JOB_FINAL, JobPhase, Outcome, Verdict
from openpai.lifecycle.states import JOB_STATES
from openpai.ports.queries import EventRow, JobRow
from openpai.ports.task_usage import TaskUse
from openpai.protocol.dependencies import Dependency
from openpai.protocol.sweeps import sweep_in
from openpai.wire import jobs as wire
from openpai.wire.applications import JobApplication
from openpai.wire.exits import AttemptCause, FirstCause
from openpai.wire.job_attempts import OldAttemptHead


def _progress(use: TaskUse | None) -> wire.JobProgress | None:
    found = None if use is None else progress(use)
    if use is None or found is None:
        return None
    return {**found, "taskRoleName": use.sample.key.role, "taskIndex": use.sample.key.index}


def _status(row: JobRow, now_ms: int, use: TaskUse | None) -> wire.JobStatus:
    phase = JobPhase(row.phase)
    state = JOB_STATES[phase]
    delay_s = None if row.retry_at_ms is None else max(row.retry_at_ms - now_ms, 0) / 1000
    # A retry is counted when it begins, not when it is decided.
    counted = min(row.retries_counted, row.attempt)
    return {
        "username": row.user,
        "state": state.state,
        "subState": state.sub_state,
        "executionType": "STOP" if row.is_stop_requested else "START",
        "retries": row.attempt,
        "retryDetails": {"user": counted, "platform": row.attempt - counted, "resource": 0},
        "retryDelayTime": None if delay_s is None else round(delay_s),
        "submissionTime": row.submitted_at_ms,
        "createdTime": row.submitted_at_ms,
        "launchedTime": row.started_at_ms or (row.ended_at_ms if phase in JOB_FINAL else None),
        "completedTime": row.ended_at_ms,
        "appExitCode": row.outcome.code if row.outcome else None,
        "virtualCluster": row.virtual_cluster,
        "progress": _progress(use),
    }


def _head(row: JobRow) -> wire.JobHead:
    head: wire.JobHead = {
        "debugId": row.id,
        "name": row.name,
        "tags": row.tags,
        "jobPriority": row.priority_class,
        "rank": row.rank,
        "private": row.is_private,
        "archivedTime": row.archived_at_ms,
    }
    if row.tags and (sweep := sweep_in(row.tags)):
        head["sweep"] = sweep
    return head


def summary(row: JobRow, now_ms: int, use: TaskUse | None = None) -> wire.JobSummary:
    """Return a job as an entry of the list, with the progress of the task that is least far."""
    return {
        **_head(row),
        **_status(row, now_ms, use),
        "totalGpuNumber": row.gpus_total,
        "totalTaskNumber": row.tasks_total,
        "totalTaskRoleNumber": row.roles_total,
        "appLaunchedTime": row.attempt_started_at_ms or row.attempt_ended_at_ms,
        "appCompletedTime": row.attempt_ended_at_ms,
    }


def detail(
    row: JobRow,
    attempt: AttemptView,
    restarts: Sequence[EventRow],
    now_ms: int,
    *,
    is_interruptible: bool,
    use: TaskUse | None = None,
    after: Sequence[Dependency] = (),
    applications: Sequence[JobApplication] = (),
) -> wire.JobDetailHead:
    """Return a job with one of its attempts; the tasks of that attempt are added by `answers.parts_with`."""
    return {
        **_head(row),
        "timeLimitMinutes": None if row.time_limit_ms is None else row.time_limit_ms / 60_000,
        "interruptible": is_interruptible,
        "after": [{"job": one.full_name, "until": one.until.value} for one in after],
        "applications": applications,
        "restarts": [
            {"attemptId": event.job_attempt, "time": event.at_ms, "message": event.message}
            for event in (found.event for found in reversed(restarts))
        ],
        "jobStatus": _attempt_status(row, attempt, now_ms, use if attempt.is_latest else None),
    }


def by_role(tasks: Iterable[TaskHistory]) -> dict[str, list[TaskHistory]]:
    """Return tasks grouped by role, in the job file's order."""
    roles: dict[str, list[TaskHistory]] = {}
    for task in tasks:
        roles.setdefault(task.role, []).append(task)
    return roles


def _attempt_status(row: JobRow, attempt: AttemptView, now_ms: int, use: TaskUse | None) -> wire.AttemptStatus:
    ending = _ending(attempt.outcome)
    spec = ending["appExitSpec"]
    return {
        **_status(row, now_ms, use),
        "attemptId": attempt.number,
        "attemptState": attempt.state,
        "appId": f"{attempt.number}_{row.id}",
        "appProgress": 0 if attempt.outcome is None else 1,
        "appTrackingUrl": "",
        "appCreatedTime": attempt.created_at_ms,
        "appLaunchedTime": attempt.started_at_ms or attempt.ended_at_ms,
        "appCompletedTime": attempt.ended_at_ms,
        **ending,
        "appExitCode": attempt.outcome.code if attempt.outcome else None,
        "appExitType": spec["type"] if spec else None,
        "checkpointTime": row.checkpoint_at_ms,
    }


def _first_cause(outcome: Outcome | None) -> FirstCause | None:
    found = cause(outcome.diagnosis) if outcome is not None and outcome.verdict is Verdict.FAILED else None
    if outcome is None or found is None:
        return None
    trigger = outcome.trigger
    role, index = (trigger.role, trigger.index) if trigger else (None, None)
    return {**found, "taskRoleName": role, "taskIndex": index, "time": outcome.at_ms}


def _ending(outcome: Outcome | None) -> AttemptCause:
    spec = None if outcome is None else exit_spec(outcome.code, outcome.diagnosis)
    if spec and outcome and outcome.verdict is Verdict.PREEMPTED:
        # OpenPAI has one code for preempted and for vanished tasks.
        spec = {**spec, "reason": outcome.message}
    trigger = outcome.trigger if outcome else None
    return {
        "appExitCause": _first_cause(outcome),
        "appExitSpec": spec,
        "appExitDiagnostics": diagnostics(outcome.message, outcome.diagnosis) if outcome else None,
        "appExitMessages": exit_messages(outcome.code, outcome.message, outcome.diagnosis, None) if outcome else None,
        "appExitTriggerMessage": outcome.message if outcome else None,
        "appExitTriggerTaskRoleName": trigger.role if trigger else None,
        "appExitTriggerTaskIndex": trigger.index if trigger else None,
    }


def old_attempt(row: JobRow, attempt: AttemptView) -> OldAttemptHead:
    """Return an attempt in the shape of the deprecated `job-attempts` routes, without its tasks."""
    outcome = attempt.outcome
    ending = _ending(outcome)
    spec, messages = ending["appExitSpec"], ending["appExitMessages"]
    return {
        "jobName": row.name,
        "frameworkName": row.id,
        "uid": f"{attempt.number}_{row.id}",
        "userName": row.user,
        "state": attempt.state,
        "originState": JOB_STATES[JobPhase(row.phase)].sub_state if attempt.is_latest else "Completed",
        "attemptIndex": attempt.number,
        "jobStartedTime": row.submitted_at_ms,
        "attemptStartedTime": attempt.created_at_ms,
        "attemptCompletedTime": attempt.ended_at_ms,
        "exitCode": outcome.code if outcome else None,
        "exitPhrase": spec["phrase"] if spec else None,
        "exitType": spec["type"] if spec else None,
        "exitDiagnostics": None
        if messages is None
        else {
            "diagnosticsSummary": ending["appExitDiagnostics"] or "",
            "runtime": messages["runtime"],
            "launcher": messages["launcher"],
        },
        **ending,
        "totalGpuNumber": row.gpus_total,
        "totalTaskNumber": row.tasks_total,
        "totalTaskRoleNumber": row.roles_total,
        "jobPriority": row.priority_class,
        "isLatest": attempt.is_latest,
    }
