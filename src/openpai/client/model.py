"""What the platform answers, as plain frozen values a Python program can lean on.

Names are in snake case and times are milliseconds since the epoch. Whatever a newer server says beyond these
fields is not lost: `document` holds its answer as it came, and `--json` prints that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Document = Mapping[str, Any]

SUCCEEDED: Final = "SUCCEEDED"
FINAL_STATES: Final = frozenset({SUCCEEDED, "FAILED", "STOPPED"})


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    return _number(value) or 0


def _exit_phrase(spec: Any) -> str:
    return _text(spec.get("phrase")) if isinstance(spec, Mapping) else ""


@dataclass(frozen=True, slots=True)
class Login:
    """A person the server recognised, and the token that proves it."""

    user: str
    token: str = field(repr=False)
    is_admin: bool
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Login:
        """Return the login the server answered with."""
        return cls(document["user"], document["token"], bool(document.get("admin")), document)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job the server has promised to run."""

    user: str
    name: str
    warnings: tuple[str, ...]
    document: Document = field(repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"

    @classmethod
    def read(cls, document: Document) -> Submitted:
        """Return the submission the server acknowledged."""
        warnings = tuple(document.get("warnings") or ())
        return cls(_text(document.get("user")), _text(document.get("name")), warnings, document)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One line of the list of jobs."""

    user: str
    name: str
    state: str
    virtual_cluster: str
    submitted_at_ms: int | None
    started_at_ms: int | None
    ended_at_ms: int | None
    exit_code: int | None
    retries: int
    gpus: int
    tasks: int
    document: Document = field(repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"

    @classmethod
    def read(cls, document: Document) -> JobSummary:
        """Return one entry of the server's list."""
        return cls(
            user=_text(document.get("username")),
            name=_text(document.get("name")),
            state=_text(document.get("state")),
            virtual_cluster=_text(document.get("virtualCluster")),
            submitted_at_ms=_number(document.get("submissionTime")),
            started_at_ms=_number(document.get("launchedTime")),
            ended_at_ms=_number(document.get("completedTime")),
            exit_code=_number(document.get("appExitCode")),
            retries=_count(document.get("retries")),
            gpus=_count(document.get("totalGpuNumber")),
            tasks=_count(document.get("totalTaskNumber")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of the jobs that match, and how many match in all."""

    jobs: tuple[JobSummary, ...]
    total: int
    document: Document = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task in its newest attempt."""

    role: str
    index: int
    state: str
    attempt: int | None
    """Number of its newest attempt; None while it never had one."""
    retries: int
    node: str
    address: str
    ports: Mapping[str, str]
    started_at_ms: int | None
    ended_at_ms: int | None
    exit_code: int | None
    exit_phrase: str
    exit_diagnostics: str
    document: Document = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Return `role-index`, as people call it."""
        return f"{self.role}-{self.index}"

    @property
    def is_final(self) -> bool:
        """Return whether the task is over."""
        return self.state in FINAL_STATES

    @classmethod
    def read(cls, role: str, document: Document) -> TaskView:
        """Return one task of a job's detail."""
        return cls(
            role=role,
            index=_count(document.get("taskIndex")),
            state=_text(document.get("taskState")),
            attempt=_number(document.get("attemptId")),
            retries=_count(document.get("retries")),
            node=_text(document.get("containerNodeName")),
            address=_text(document.get("containerIp")),
            ports=dict(document.get("containerPorts") or {}),
            started_at_ms=_number(document.get("launchedTime")),
            ended_at_ms=_number(document.get("completedTime")),
            exit_code=_number(document.get("containerExitCode")),
            exit_phrase=_exit_phrase(document.get("containerExitSpec")),
            exit_diagnostics=_text(document.get("containerExitDiagnostics")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class JobDetail:
    """One job with every task of one of its attempts."""

    user: str
    name: str
    state: str
    execution_type: str
    virtual_cluster: str
    retries: int
    attempt: int | None
    submitted_at_ms: int | None
    started_at_ms: int | None
    ended_at_ms: int | None
    exit_code: int | None
    exit_phrase: str
    exit_diagnostics: str
    trigger_role: str
    """Role of the task that decided how the attempt ended; empty when none did."""
    trigger_index: int | None
    trigger_message: str
    tasks: tuple[TaskView, ...]
    document: Document = field(repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"

    @property
    def is_final(self) -> bool:
        """Return whether nothing more happens until somebody starts the job again."""
        return self.state in FINAL_STATES

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the names of the task roles in the order of the job file."""
        return tuple(self.document.get("taskRoles") or {})

    def task(self, role: str, index: int) -> TaskView | None:
        """Return one task, or None when the job has no such task."""
        return next((task for task in self.tasks if task.role == role and task.index == index), None)

    @classmethod
    def read(cls, document: Document) -> JobDetail:
        """Return the detail of a job."""
        status = document.get("jobStatus") or {}
        tasks = [
            TaskView.read(role, task)
            for role, view in (document.get("taskRoles") or {}).items()
            for task in view.get("taskStatuses") or ()
        ]
        return cls(
            user=_text(status.get("username")),
            name=_text(document.get("name")),
            state=_text(status.get("state")),
            execution_type=_text(status.get("executionType")),
            virtual_cluster=_text(status.get("virtualCluster")),
            retries=_count(status.get("retries")),
            attempt=_number(status.get("attemptId")),
            submitted_at_ms=_number(status.get("submissionTime")),
            started_at_ms=_number(status.get("launchedTime")),
            ended_at_ms=_number(status.get("completedTime")),
            exit_code=_number(status.get("appExitCode")),
            exit_phrase=_exit_phrase(status.get("appExitSpec")),
            exit_diagnostics=_text(status.get("appExitDiagnostics")),
            trigger_role=_text(status.get("appExitTriggerTaskRoleName")),
            trigger_index=_number(status.get("appExitTriggerTaskIndex")),
            trigger_message=_text(status.get("appExitTriggerMessage")),
            tasks=tuple(tasks),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's history."""

    type: str
    reason: str
    message: str
    at_ms: int | None
    task: str
    node: str
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Event:
        """Return one event of the server's list."""
        return cls(
            type=_text(document.get("type")),
            reason=_text(document.get("reason")),
            message=_text(document.get("message")),
            at_ms=_number(document.get("lastTimestamp")),
            task=_text(document.get("taskName")),
            node=_text(document.get("sourceHost")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Wait:
    """Why something of a job waits, in words of whoever decided it."""

    code: str
    told: str
    unblock: str
    ahead: tuple[str, ...]
    position: int | None
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Wait:
        """Return one reason for waiting."""
        ahead = document.get("ahead") or ()
        return cls(
            code=_text(document.get("code")),
            told=_text(document.get("told")),
            unblock=_text(document.get("unblock")),
            ahead=(ahead,) if isinstance(ahead, str) else tuple(str(job) for job in ahead),
            position=_number(document.get("position")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Amount:
    """How much there is of something and how much of it is in use."""

    total: int
    used: int

    @classmethod
    def read(cls, document: Document | None) -> Amount:
        """Return an amount; nothing said means nothing there."""
        document = document or {}
        return cls(_count(document.get("total")), _count(document.get("used")))


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine and how much of it is in use."""

    name: str
    address: str
    is_healthy: bool
    told: str
    gpu_model: str
    cpus: Amount
    memory_mb: Amount
    gpus: Amount
    tasks: int
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> NodeView:
        """Return one machine of the server's list."""
        return cls(
            name=_text(document.get("name")),
            address=_text(document.get("address")),
            is_healthy=bool(document.get("healthy")),
            told=_text(document.get("told")),
            gpu_model=_text(document.get("gpuModel")),
            cpus=Amount.read(document.get("cpus")),
            memory_mb=Amount.read(document.get("memoryMB")),
            gpus=Amount.read(document.get("gpus")),
            tasks=_count(document.get("tasks")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of one stream of a task's log, beginning at byte `offset` of it."""

    stream: str
    offset: int
    text: str
