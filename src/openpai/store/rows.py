"""Converts the platform's values to rows of the database and back.

No other module knows the columns, so a value that is read equals the value that was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from sys import intern
from types import MappingProxyType
from typing import Any, Final

import msgspec

from openpai.lifecycle.model import (
    AttemptKey,
    Behavior,
    Diagnosis,
    EndReason,
    ExitReason,
    ExitReport,
    Job,
    JobPhase,
    Outcome,
    Plan,
    Retries,
    RolePlan,
    Task,
    TaskId,
    TaskPhase,
    Tasks,
    Verdict,
)
from openpai.ports.store import Event, JobRecord, NewJob, Sealed, Slot
from openpai.protocol.job import JobSpec
from openpai.protocol.writing import dump_spec, load_spec

Row = Mapping[str, Any]


# Thousands of tasks are written and read, in a fifth of the time that `json` takes.
_encode: Final = msgspec.json.Encoder().encode
_load: Final = msgspec.json.decode


def _dump(value: Any) -> str:
    return _encode(value).decode()


def plan_text(plan: Plan) -> str:
    """Return a plan as JSON text."""
    roles = [
        [r.name, r.instances, r.min_failed, r.min_succeeded, r.task_retry_count]
        + ([] if r.gang_instances is None else [r.gang_instances])
        for r in plan.roles
    ]
    held = {"heldFirst": plan.is_held_first, "heldAgain": plan.is_held_again}
    more = {name: True for name, is_so in held.items() if is_so}
    return _dump({"roles": roles, "jobRetryCount": plan.job_retry_count, "gang": plan.is_gang, **more})


@lru_cache(maxsize=512)
def plan_from(text: str) -> Plan:
    """Return the plan that `plan_text` wrote; callers share the value of equal texts."""
    data = json.loads(text)
    roles = tuple(RolePlan(*role) for role in data["roles"])
    return Plan(roles, data["jobRetryCount"], data["gang"], data.get("heldFirst", False), data.get("heldAgain", False))


@lru_cache(maxsize=512)
def spec_from(text: str) -> JobSpec:
    """Return the specification that `dump_spec` wrote; callers share the value of equal texts."""
    return load_spec(text, {})


def _diagnosis_data(diagnosis: Diagnosis | None) -> list[Any] | None:
    if diagnosis is None:
        return None
    d = diagnosis
    found = [d.matched, d.cause, d.domain, list(d.lines), d.retry, d.excludes_node]
    return [d.code, d.phrase, d.type, d.behavior.value, d.reason, list(d.advice), *found]


def _diagnosis_from(data: list[Any] | None) -> Diagnosis | None:
    if data is None:
        return None
    # What older servers wrote is shorter.
    code, phrase, type_, behavior, reason, advice, *found = data
    found[3:4] = [tuple(lines) for lines in found[3:4]]
    return Diagnosis(code, phrase, type_, Behavior(behavior), reason, tuple(advice), *found)


@lru_cache(maxsize=512)
def _diagnosis_of(text: str) -> Diagnosis | None:
    # Thousands of tasks end for the same reason.
    return _diagnosis_from(json.loads(text))


def diagnosis_from(text: str | None) -> Diagnosis | None:
    """Return the diagnosis of a row."""
    return _diagnosis_of(text) if text else None


@lru_cache(maxsize=512)
def _diagnosis_text(diagnosis: Diagnosis) -> str:
    return _dump(_diagnosis_data(diagnosis))


def outcome_text(outcome: Outcome | None) -> str | None:
    """Return an outcome as JSON text."""
    if outcome is None:
        return None
    trigger = [outcome.trigger.role, outcome.trigger.index] if outcome.trigger else None
    diagnosis, end_reason = _diagnosis_data(outcome.diagnosis), outcome.end_reason.value
    return _dump([outcome.verdict.value, outcome.code, diagnosis, trigger, outcome.message, outcome.at_ms, end_reason])


def outcome_from(text: str | None) -> Outcome | None:
    """Return the outcome that `outcome_text` wrote."""
    if text is None:
        return None
    verdict, code, diagnosis, trigger, message, *rest = json.loads(text)  # older servers wrote less of the rest
    at_ms, end_reason = [*rest, None, None][:2]
    task, reason = TaskId(*trigger) if trigger else None, EndReason(end_reason or EndReason.JOB_ENDED)
    return Outcome(Verdict(verdict), code, _diagnosis_from(diagnosis), task, message, at_ms, reason)


_OF_JOB: Final = (
    *("attempt", "is_stop_requested", "attempt_at_ms", "attempt_started_at_ms", "attempt_ended_at_ms"),
    *("started_at_ms", "ended_at_ms", "retry_at_ms"),
)
_JOB_VALUES: Final = attrgetter(*_OF_JOB)
_OF_RECORD: Final = ("version", "virtual_cluster", "priority", "priority_class", "rank", "checkpoint_at_ms")
"""The columns of jobs that change and are called as the fields of `Job` and of `JobRecord`."""
_RECORD_VALUES: Final = attrgetter(*_OF_RECORD)


def stored_phase(phase: JobPhase) -> str:
    """Return the word for a phase in the database. Its check knows no held jobs: they back off without a time."""
    return (JobPhase.BACKING_OFF if phase is JobPhase.HELD else phase).value


def phase_from(row: Row) -> JobPhase:
    """Return the phase of a job, from its row."""
    phase = JobPhase(row["phase"])
    return JobPhase.HELD if phase is JobPhase.BACKING_OFF and row["retry_at_ms"] is None else phase


def job_columns(record: JobRecord) -> dict[str, Any]:
    """Return the columns of a job that change during its life."""
    job = record.job
    return {
        **dict(zip(_OF_JOB, _JOB_VALUES(job), strict=True)),
        **dict(zip(_OF_RECORD, _RECORD_VALUES(record), strict=True)),
        "retries_counted": job.retries.counted,
        "retries_free": job.retries.free,
        "phase": stored_phase(job.phase),
    }


def new_job_columns(new: NewJob) -> dict[str, Any]:
    """Return a job that was just submitted as a row; its details are another one."""
    record = new.record
    return {
        **job_columns(record),
        "id": record.job.id,
        "owner": record.user,
        "name": record.name,
        "submitted_at_ms": record.job.submitted_at_ms,
        "gpus_total": new.gpus_total,
        "tasks_total": record.job.plan.tasks_total,
        "roles_total": len(record.job.plan.roles),
        "time_limit_ms": record.time_limit_ms,
        "is_private": record.is_private,
    }


def detail_columns(new: NewJob) -> dict[str, Any]:
    """Return the long values of a job that was just submitted, as a row."""
    record = new.record
    return {
        "job": record.job.id,
        "plan": plan_text(record.job.plan),
        "spec": dump_spec(record.spec),
        "config": new.config_text,
        "sealed": record.sealed.data if record.sealed else None,
        "outcome": outcome_text(record.job.outcome),
    }


def rescaled_columns(record: JobRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of a job and of its details that a change of its numbers of tasks changes."""
    plan, spec = record.job.plan, record.spec
    of_job = {"tasks_total": plan.tasks_total, "gpus_total": spec.gpus_total}
    return of_job, {"plan": plan_text(plan), "spec": dump_spec(spec)}


def record_from(row: Row, attempts: Iterable[Row]) -> JobRecord:
    """Return a job, from its row and that of its details, with the tasks of its current attempt.

    Tasks without a row wait for their first grant.
    """
    plan = plan_from(row["plan"])
    fresh = [_fresh(role.name, index) for role in plan.roles for index in range(role.instances)]
    tasks = {task.id: task for task in fresh}
    slots: dict[TaskId, Slot] = {}
    for attempt in sorted(attempts, key=lambda each: int(each["attempt"])):
        task = task_from(attempt)
        tasks[task.id] = task
        slots.pop(task.id, None)
        slot = slot_from(attempt)
        if slot is not None and task.is_alive:
            slots[task.id] = slot
    job = Job(
        id=row["id"],
        plan=plan,
        phase=phase_from(row),
        submitted_at_ms=row["submitted_at_ms"],
        tasks=Tasks(tasks),
        retries=Retries(row["retries_counted"], row["retries_free"]),
        outcome=outcome_from(row["outcome"]),
        **{name: row[name] for name in _OF_JOB},
    )
    return JobRecord(
        job=job,
        user=row["owner"],
        name=row["name"],
        spec=spec_from(row["spec"]),
        sealed=Sealed(bytes(row["sealed"])) if row["sealed"] is not None else None,
        slots=slots,
        time_limit_ms=row["time_limit_ms"],
        is_private=row["is_private"],
        **{name: row[name] for name in _OF_RECORD},
    )


def task_columns(of: JobRecord, job_attempt: int, task: Task, slot: Slot | None) -> dict[str, Any]:
    """Return a task attempt as a row."""
    report = task.report
    return {
        "job": of.job.id,
        "owner": of.user,
        "virtual_cluster": of.virtual_cluster,
        "job_attempt": job_attempt,
        "role": task.id.role,
        "task_index": task.id.index,
        "attempt": task.attempt,
        "phase": task.phase.value,
        "retries_counted": task.retries.counted,
        "retries_free": task.retries.free,
        "granted_at_ms": task.granted_at_ms,
        "started_at_ms": task.started_at_ms,
        "ended_at_ms": task.ended_at_ms,
        "retry_at_ms": task.retry_at_ms,
        "grant_number": task.grant,
        "node": slot.node if slot else None,
        "address": slot.address if slot else None,
        "devices": _devices_text(slot) if slot else None,
        "ports": _dump({label: list(ports) for label, ports in slot.ports.items()}) if slot else None,
        "seat": slot.placement_hint if slot else None,
        "gpus": slot.gpus if slot else None,
        "cpus": slot.cpus if slot else None,
        "memory_mb": slot.memory_mb if slot else None,
        "report": _dump([report.code, report.reason.value, report.message, report.started_at_ms, report.ended_at_ms])
        if report
        else None,
        "diagnosis": _diagnosis_text(task.diagnosis) if task.diagnosis else None,
    }


def task_from(row: Row) -> Task:
    """Return the task attempt of a row."""
    return Task(
        id=_task_id(row["role"], row["task_index"]),
        phase=TaskPhase(row["phase"]),
        attempt=row["attempt"],
        grant=row["grant_number"],
        retries=_retries(row["retries_counted"], row["retries_free"]),
        granted_at_ms=row["granted_at_ms"],
        started_at_ms=row["started_at_ms"],
        ended_at_ms=row["ended_at_ms"],
        retry_at_ms=row["retry_at_ms"],
        report=report_from(row["report"]),
        diagnosis=diagnosis_from(row["diagnosis"]),
    )


def report_from(text: str | None) -> ExitReport | None:
    """Return the exit report of a row."""
    if text is None:
        return None
    code, reason, message, started_at_ms, ended_at_ms = json.loads(text)
    return ExitReport(code, ExitReason(reason), message, started_at_ms, ended_at_ms)


# Nodes and jobs are alike, so thousands of tasks share few different parts.
_task_id = lru_cache(maxsize=4096)(TaskId)
_retries = lru_cache(maxsize=256)(Retries)


@lru_cache(maxsize=4096)
def _fresh(role: str, index: int) -> Task:
    return Task(_task_id(role, index))


@lru_cache(maxsize=4096)
def _devices_of(text: str) -> tuple[tuple[int, ...], bool]:
    found = _load(text)
    return (tuple(found["alone"]), True) if isinstance(found, dict) else (tuple(found), False)


def _devices_text(slot: Slot) -> str:
    devices = list(slot.devices)
    return _dump({"alone": devices} if slot.is_alone else devices)


@lru_cache(maxsize=4096)
def _ports_of(text: str) -> Mapping[str, tuple[int, ...]]:
    return MappingProxyType({label: tuple(values) for label, values in _load(text).items()})


def slot_from(row: Row) -> Slot | None:
    """Return the slot of a task attempt, None if it never had one."""
    if row["node"] is None:
        return None
    devices, is_alone = _devices_of(row["devices"])
    return Slot(
        node=intern(row["node"]),
        address=intern(row["address"]),
        devices=devices,
        ports=_ports_of(row["ports"]),
        grant=row["grant_number"],
        placement_hint=intern(row["seat"] or ""),
        gpus=row["gpus"] or 0,
        cpus=row["cpus"] or 0,
        memory_mb=row["memory_mb"] or 0,
        is_alone=is_alone,
    )


def event_columns(event: Event) -> dict[str, Any]:
    """Return an event as a row."""
    return {
        "job": event.job,
        "at_ms": event.at_ms,
        "is_warning": event.is_warning,
        "reason": event.reason,
        "message": event.message,
        "job_attempt": event.job_attempt,
        "task": event.key.path() if event.key else None,
        "node": event.node,
    }


def event_from(row: Row) -> Event:
    """Return the event of a row."""
    return Event(
        job=row["job"],
        at_ms=row["at_ms"],
        reason=row["reason"],
        message=row["message"],
        job_attempt=row["job_attempt"],
        key=AttemptKey.parse(row["task"]) if row["task"] else None,
        node=row["node"],
        is_warning=row["is_warning"],
    )
