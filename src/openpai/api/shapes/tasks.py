"""Tasks and their attempts in OpenPAI's shapes.

A task that was never placed has no attempt yet; it is listed nevertheless, so that a waiting job shows all of its
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openpai.access.ssh_destinations import user_name
from openpai.api.services import SshGateway
from openpai.api.shapes.exits import cause, diagnostics, exit_spec
from openpai.api.shapes.job_attempts import AttemptView
from openpai.lifecycle.diagnosis import ended_with_attempt
from openpai.lifecycle.model import TASK_FINAL, Diagnosis, TaskPhase
from openpai.lifecycle.states import TASK_STATES, State
from openpai.ports.kept_work import KeptAttempt
from openpai.ports.queries import JobRow, TaskAttemptRow
from openpai.ports.store import Slot
from openpai.ports.task_usage import DeviceUse, TaskUse
from openpai.protocol.job import JobSpec
from openpai.runtime.environment import SSH_LABEL
from openpai.wire import tasks as wire
from openpai.wire.job_attempts import ShortTask
from openpai.wire.job_events import SshAddress, SshGatewayAddress
from openpai.wire.states import FINAL_STATES


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """One task of a job attempt with its own attempts, oldest first; none before it was first placed."""

    role: str
    index: int
    attempts: tuple[TaskAttemptRow, ...] = ()
    is_removed: bool = False
    """Whether its role has become smaller since, and no longer has it."""

    @property
    def latest(self) -> TaskAttemptRow | None:
        return self.attempts[-1] if self.attempts else None


def histories(spec: JobSpec, rows: Iterable[TaskAttemptRow]) -> list[TaskHistory]:
    """Return every task of a job, in the order of its file, with its attempts; those that a smaller role lost, too."""
    attempts: dict[tuple[str, int], list[TaskAttemptRow]] = {}
    for row in rows:
        attempts.setdefault((row.key.role, row.key.index), []).append(row)
    sizes = {role.name: role.instances for role in spec.task_roles}
    lost: dict[str, list[int]] = {}
    for name, index in attempts:
        if index >= sizes.get(name, 0):
            lost.setdefault(name, []).append(index)
    return [
        TaskHistory(role.name, index, tuple(attempts.get((role.name, index), ())), is_removed=index >= role.instances)
        for role in spec.task_roles
        for index in (*range(role.instances), *sorted(lost.get(role.name, ())))
    ]


def task_status(job: JobRow, attempt: AttemptView, task: TaskHistory) -> wire.TaskStatus:
    """Return a task as an entry of a job's detail."""
    latest = task.latest
    head = _head(job, attempt, task)
    return {
        **head,
        **_container(job, latest, attempt),
        "attemptId": latest.key.task_attempt if latest else None,
        "attemptState": head["taskState"],
        **_attempt_times(latest),
        "isRemoved": task.is_removed,
    }


def task_detail(job: JobRow, attempt: AttemptView, task: TaskHistory) -> wire.TaskDetail:
    """Return a task with every attempt of it, newest first."""
    return {
        "username": job.user,
        "jobName": job.name,
        "jobAttemptId": attempt.number,
        "taskRoleName": task.role,
        **_head(job, attempt, task),
        "attempts": [
            {
                "attemptId": row.key.task_attempt,
                "attemptState": _state(attempt, row).state,
                **_attempt_times(row),
                **_container(job, row, attempt),
            }
            for row in reversed(task.attempts)
        ],
    }


def short_task(job: JobRow, attempt: AttemptView, task: TaskHistory) -> ShortTask:
    """Return a task in the short form of the deprecated `job-attempts` routes."""
    container = _container(job, task.latest, attempt)
    return {
        "taskIndex": task.index,
        "taskState": _state(attempt, task.latest).state,
        "containerId": container["containerId"],
        "containerIp": container["containerIp"],
        "containerGpus": container["containerGpus"],
        "containerLog": container["containerLog"],
        "containerExitCode": container["containerExitCode"],
    }


def kept_files(kept: KeptAttempt) -> wire.KeptTaskFiles:
    """Return what one task attempt left in its working directory."""
    return {
        "jobAttemptId": kept.key.job_attempt,
        "taskRoleName": kept.key.role,
        "taskIndex": kept.key.index,
        "attemptId": kept.key.task_attempt,
        "files": kept.files,
        "bytes": kept.bytes,
        "isCounted": kept.is_counted,
        "keptUntil": kept.kept_until_ms,
    }


def task_use(use: TaskUse, spec: JobSpec) -> wire.TaskUse:
    """Return what a running task uses, beside what its role asks for."""
    key, sample, rates = use.sample.key, use.sample, use.rates
    counters = sample.counters
    requested = next((role.resources for role in spec.task_roles if role.name == key.role), None)
    return {
        "taskRoleName": key.role,
        "taskIndex": key.index,
        "jobAttemptId": key.job_attempt,
        "attemptId": key.task_attempt,
        "time": sample.at_ms,
        "cpus": None if rates is None else round(rates.cpus, 3),
        "cpusRequested": requested.cpus if requested else 0,
        "cpuSeconds": round(counters.cpu_s, 2),
        "memoryBytes": sample.memory_bytes,
        "memoryRequestedBytes": requested.memory_mb << 20 if requested else 0,
        "diskReadBytes": counters.disk_read_bytes,
        "diskWrittenBytes": counters.disk_written_bytes,
        "diskReadPerSecond": _rounded(rates.disk_read if rates else None),
        "diskWrittenPerSecond": _rounded(rates.disk_written if rates else None),
        "networkReceivedBytes": counters.network_received_bytes,
        "networkSentBytes": counters.network_sent_bytes,
        "networkReceivedPerSecond": _rounded(rates.network_received if rates else None),
        "networkSentPerSecond": _rounded(rates.network_sent if rates else None),
        "processes": sample.processes,
        "stoppedProcesses": sample.stopped,
        "gpus": [_gpu_use(device) for device in sample.devices],
        "progress": progress(use),
    }


def progress(use: TaskUse) -> wire.TaskProgress | None:
    """Return what a task reported last about its progress."""
    found = use.sample.progress
    if found is None:
        return None
    return {
        "step": found.step,
        "total": found.total,
        "metrics": found.metrics,
        "time": use.sample.progress_at_ms,
        "stepsPerSecond": None if use.steps_per_s is None else round(use.steps_per_s, 4),
        "secondsLeft": _rounded(use.left_s),
    }


def _gpu_use(device: DeviceUse) -> wire.GpuUse:
    return {
        "index": device.index,
        "busyPercent": device.busy_percent,
        "tensorPercent": device.tensor_percent,
        "memoryBytes": device.memory_bytes,
        "memoryTotalBytes": device.memory_total_bytes,
        "powerWatts": device.power_w,
        "powerLimitWatts": device.power_limit_w,
        "temperatureCelsius": device.temperature_c,
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


def ssh_address(task: TaskHistory) -> SshAddress | None:
    """Return how to reach a running task by SSH, None while it does not run."""
    latest = task.latest
    if latest is None or latest.slot is None or TaskPhase(latest.phase) is not TaskPhase.RUNNING:
        return None
    ports = latest.slot.ports.get(SSH_LABEL, ())
    if not ports:
        return None
    host = latest.slot.address
    return {
        "id": latest.key.path(),
        "taskRoleName": task.role,
        "taskIndex": task.index,
        "sshIp": host,
        "sshPort": str(ports[0]),
        "command": f"ssh -p {ports[0]} root@{host}",
    }


def gateway_address(
    task: TaskHistory, gateway: SshGateway, host: str, account: str, job: JobRow
) -> SshGatewayAddress | None:
    """Return how an SSH client reaches a running task through the gateway, None while it does not run."""
    latest = task.latest
    if latest is None or TaskPhase(latest.phase) is not TaskPhase.RUNNING:
        return None
    user = user_name(account, job.user, job.name, task.role, task.index)
    return {
        "taskRoleName": task.role,
        "taskIndex": task.index,
        "host": host,
        "port": gateway.port,
        "user": user,
        "hostKey": gateway.host_key,
        "command": f"ssh -p {gateway.port} {user}@{host}",
    }


def logs_path(job: JobRow, row: TaskAttemptRow) -> str:
    """Return the path of a task attempt's logs in the API."""
    key = row.key
    return (
        f"/api/v2/jobs/{path_name(job)}/attempts/{key.job_attempt}"
        f"/taskRoles/{key.role}/taskIndex/{key.index}/attempts/{key.task_attempt}/logs"
    )


def path_name(job: JobRow) -> str:
    """Return the name of a job in paths, or the id of an archived job, whose name another job may have."""
    return job.full_name if job.archived_at_ms is None else job.id


def _state(attempt: AttemptView, row: TaskAttemptRow | None) -> State:
    if row is None:
        # A task that was never placed ended with the job attempt.
        return TASK_STATES[TaskPhase.WAITING if attempt.outcome is None else TaskPhase.STOPPED]
    phase = TaskPhase(row.phase)
    state = TASK_STATES[phase]
    if attempt.outcome is None or phase in TASK_FINAL:
        return state
    return State("STOPPING", "AttemptDeleting")


def _head(job: JobRow, attempt: AttemptView, task: TaskHistory) -> wire.TaskHead:
    latest = task.latest
    state = _state(attempt, latest).state
    ended_at_ms = (latest.ended_at_ms if latest else attempt.ended_at_ms) if state in FINAL_STATES else None
    started = (row.started_at_ms for row in task.attempts if row.started_at_ms is not None)
    return {
        "taskIndex": task.index,
        "taskUid": f"{job.id}/{attempt.number}/{task.role}/{task.index}",
        "taskState": state,
        "retries": latest.key.task_attempt if latest else 0,
        "accountableRetries": latest.retries_counted if latest else 0,
        "createdTime": attempt.created_at_ms,
        "launchedTime": next(started, ended_at_ms),
        "completedTime": ended_at_ms,
    }


def _attempt_times(row: TaskAttemptRow | None) -> wire.AttemptTimes:
    return {
        "currentAttemptCreatedTime": row.granted_at_ms if row else None,
        "currentAttemptLaunchedTime": (row.started_at_ms or row.ended_at_ms) if row else None,
        "currentAttemptCompletedTime": row.ended_at_ms if row else None,
    }


def _container(job: JobRow, row: TaskAttemptRow | None, attempt: AttemptView) -> wire.Container:
    slot = row.slot if row else None
    has_begun = row is not None and row.granted_at_ms is not None
    code, diagnosis = _ending(row, attempt)
    message = row.report.message if row and row.report else ""
    return {
        "containerId": row.key.path() if row and has_begun else None,
        "containerIp": slot.address if slot else None,
        "containerNodeName": slot.node if slot else None,
        "containerPorts": _ports(slot),
        "containerGpus": ",".join(map(str, slot.devices)) if slot else None,
        "containerLog": logs_path(job, row) if row and has_begun else None,
        "containerExitCode": code,
        "containerExitSpec": None if code is None else exit_spec(code, diagnosis),
        "containerExitDiagnostics": None if code is None else diagnostics(message, diagnosis),
        "containerExitCause": cause(diagnosis),
    }


def _ending(row: TaskAttemptRow | None, attempt: AttemptView) -> tuple[int | None, Diagnosis | None]:
    """Return the exit code of a task attempt and its diagnosis; the platform's own code if the task has none."""
    if row is None:
        why = ended_with_attempt(attempt.outcome) if attempt.outcome else None
        return (why.code, why) if why else (None, None)
    if row.report is not None:
        return row.report.code, row.diagnosis
    return (row.diagnosis.code, row.diagnosis) if row.diagnosis else (None, None)


def _ports(slot: Slot | None) -> dict[str, str]:
    return {label: ",".join(map(str, ports)) for label, ports in slot.ports.items()} if slot else {}
