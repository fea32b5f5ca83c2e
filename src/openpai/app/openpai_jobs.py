"""Makes a job of ours of what OpenPAI's REST API says about one that is over.

Its exit codes are rows of the same table, and its states follow from them. What OpenPAI does not keep, such as the logs
of its tasks and the values of secrets, is missing here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from openpai.cli.openpai_source import load_yaml
from openpai.lifecycle.completion import plan_of
from openpai.lifecycle.model import (
    Behavior,
    Diagnosis,
    ExitReason,
    ExitReport,
    Job,
    JobPhase,
    Outcome,
    Plan,
    Retries,
    Task,
    TaskId,
    TaskPhase,
    Tasks,
    Verdict,
)
from openpai.orchestrator.secrets import hidden
from openpai.ports.store import Change, Event, JobRecord, NewJob, Slot
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.exit_codes import spec_for
from openpai.protocol.job import JobSpec
from openpai.protocol.reading import read_job
from openpai.protocol.writing import dump_masked

ENDED: Final = {"SUCCEEDED": JobPhase.SUCCEEDED, "FAILED": JobPhase.FAILED, "STOPPED": JobPhase.STOPPED}
PRIORITIES: Final = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
STOPPED: Final = -210
LOST: Final = "not imported"
_ID: Final = re.compile(r"[0-9a-f]{32}")
_SECRET: Final = re.compile(r"\$secrets\.(\w+)")
_NAME: Final = re.compile(r"[\w.-]{1,255}")

Ended = tuple[NewJob, Change]
"""A job to store: first as it was submitted, then how it went."""


def ended_job(summary: Mapping[str, Any], detail: Mapping[str, Any], config: Any) -> Ended:
    """Return a job that is over; raise PaiError or ValueError for one that cannot be one of ours."""
    spec = replace(_spec(config), name=_word(summary, "name"))
    status = detail["jobStatus"]
    plan = plan_of(spec)
    tasks, slots = _tasks(spec, plan, detail.get("taskRoles") or {})
    job = _job(summary, status, plan, tasks)
    priority_class = summary.get("jobPriority")
    record = JobRecord(
        job=job,
        user=_word(summary, "username"),
        name=spec.name,
        virtual_cluster=str(summary.get("virtualCluster") or "default"),
        priority=PRIORITIES.get(priority_class or "", PRIORITIES["test"]),
        spec=hidden(spec)[0],
        priority_class=priority_class if priority_class in PRIORITIES else None,
    )
    event = Event(job.id, job.submitted_at_ms, "Submitted", f"{record.user} submitted the job to OpenPAI", 0)
    new = NewJob(record, dump_masked(spec), spec.gpus_total, event)
    changed = tuple([(task, slots.get(task.id)) for task in tasks.values() if task.ended_at_ms is not None])
    imported = Event(job.id, job.ended_at_ms or 0, "Imported", "the job was imported from OpenPAI", job.attempt)
    after = replace(record, version=1)
    return new, Change(record, after, changed, job.attempt, ended=job, events=(imported,))


def _spec(config: Any) -> JobSpec:
    # The API calls it YAML and answers with JSON.
    document = load_yaml(config) if isinstance(config, str) else config
    text = json.dumps(document)
    secrets = dict.fromkeys(_SECRET.findall(text), LOST)
    named = re.findall(r'"name": "([^"]*)"', text)
    # The values of secrets are masked; they are replaced so that the file can be read, and then left out.
    return read_job(text, {"secrets": secrets, "passwords": {f"dockerimage/{name}": LOST for name in named}}).spec


def _word(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidParameters(f"its {key} is not one that a job here may have: {str(value)[:60]!r}")
    return value


def _job(summary: Mapping[str, Any], status: Mapping[str, Any], plan: Plan, tasks: Tasks) -> Job:
    id_ = str(summary.get("debugId"))
    if not _ID.fullmatch(id_):
        raise InvalidParameters(f"its debugId is not one of OpenPAI's: {id_[:60]!r}")
    phase = ENDED[str(summary["state"])]
    ended = _ms(summary.get("completedTime")) or _ms(status.get("appCompletedTime"))
    submitted = _ms(summary.get("submissionTime")) or _ms(summary.get("createdTime")) or ended
    if submitted is None or ended is None:
        raise InvalidParameters("it has no time of submission or completion")
    code = _code(summary.get("appExitCode"), phase)
    counts = summary.get("retryDetails") or {}
    trigger = status.get("appExitTriggerTaskRoleName")
    role = _role(plan, str(trigger)) if trigger is not None else None
    return Job(
        id=id_,
        plan=plan,
        phase=phase,
        submitted_at_ms=submitted,
        attempt=_count(summary.get("retries")),
        is_stop_requested=phase is JobPhase.STOPPED,
        tasks=tasks,
        retries=Retries(_count(counts.get("user")), _count(counts.get("platform"))),
        attempt_at_ms=_ms(status.get("appCreatedTime")) or submitted,
        attempt_started_at_ms=_ms(status.get("appLaunchedTime")),
        attempt_ended_at_ms=_ms(status.get("appCompletedTime")) or ended,
        started_at_ms=_ms(summary.get("launchedTime")),
        ended_at_ms=ended,
        outcome=Outcome(
            Verdict(phase.value),
            code,
            diagnosis_of(code),
            None if role is None else TaskId(role, _count(status.get("appExitTriggerTaskIndex"))),
            str(status.get("appExitTriggerMessage") or ""),
        ),
    )


def _tasks(spec: JobSpec, plan: Plan, roles: Mapping[str, Any]) -> tuple[Tasks, dict[TaskId, Slot]]:
    tasks = {id_: Task(id_, TaskPhase.STOPPED) for role in plan.roles for id_ in _ids(role.name, role.instances)}
    slots: dict[TaskId, Slot] = {}
    needs = {role.name: role.resources for role in spec.task_roles}
    for name, role in roles.items():
        found = _role(plan, str(name))
        for status in role.get("taskStatuses") or () if found is not None else ():
            id_ = TaskId(found or "", _count(status.get("taskIndex")))
            if id_ not in tasks:
                continue
            tasks[id_] = _task(id_, status)
            if (node := status.get("containerNodeName")) and tasks[id_].started_at_ms is not None:
                need = needs[id_.role]
                address = str(status.get("containerIp") or "")
                # Which devices it had is not known; it counts as having used what it asked for.
                slots[id_] = Slot(str(node), address, (), {}, 0, "", need.gpus, need.cpus, need.memory_mb)
    return Tasks(tasks), slots


def _ids(role: str, count: int) -> Sequence[TaskId]:
    return [TaskId(role, index) for index in range(count)]


def _role(plan: Plan, name: str) -> str | None:
    """Return the task role of a name in OpenPAI's answers, which has lost its capitals and underscores."""
    names = [role.name for role in plan.roles]
    if name in names:
        return name
    bare = {re.sub(r"[^a-z0-9]", "", own.lower()): own for own in names}
    return bare.get(re.sub(r"[^a-z0-9]", "", name.lower()))


def _task(id_: TaskId, status: Mapping[str, Any]) -> Task:
    phase = TaskPhase(ENDED.get(str(status.get("taskState")), JobPhase.STOPPED).value)
    code = _code(status.get("containerExitCode"), JobPhase(phase.value))
    started, ended = _ms(status.get("launchedTime")), _ms(status.get("completedTime"))
    counted = _count(status.get("accountableRetries"))
    return Task(
        id_,
        phase,
        attempt=_count(status.get("attemptId")),
        retries=Retries(counted, max(0, _count(status.get("retries")) - counted)),
        granted_at_ms=_ms(status.get("currentAttemptCreatedTime"))
        or _ms(status.get("createdTime"))
        or started
        or ended,
        started_at_ms=_ms(status.get("currentAttemptLaunchedTime")) or started,
        ended_at_ms=_ms(status.get("currentAttemptCompletedTime")) or ended,
        report=ExitReport(code, ExitReason.EXITED if code >= 0 else ExitReason.LOST, "", started, ended),
        diagnosis=diagnosis_of(code),
    )


def diagnosis_of(code: int) -> Diagnosis:
    """Return the row of the exit-code table."""
    spec = spec_for(code)
    return Diagnosis(code, spec.phrase, spec.type, Behavior(spec.behavior), spec.reason, tuple(spec.solution))


def _code(value: Any, phase: JobPhase) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return {JobPhase.SUCCEEDED: 0, JobPhase.STOPPED: STOPPED}.get(phase, 256)


def _ms(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 < value < 1e14 else None


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else 0
