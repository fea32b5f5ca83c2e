"""Jobs: one line of the list, or one with every task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from openpai.client.model.reading import Answer, Document, amount, as_amount, number, parts, text, texts, value, whole
from openpai.client.model.tasks import FINAL_STATES, TaskView


@dataclass(frozen=True, slots=True)
class Submitted(Answer):
    """A job that was accepted and stored durably."""

    user: str = text("user")
    name: str = text("name")
    warnings: tuple[str, ...] = texts("warnings")
    document: Document = whole()

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"


@dataclass(frozen=True, slots=True)
class JobSummary(Answer):
    """One line of the list of jobs."""

    user: str = text("username")
    name: str = text("name")
    state: str = text("state")
    virtual_cluster: str = text("virtualCluster")
    submitted_at_ms: int | None = number("submissionTime")
    started_at_ms: int | None = number("launchedTime")
    """When the first task of any attempt ran."""
    ended_at_ms: int | None = number("completedTime")
    attempt_started_at_ms: int | None = number("appLaunchedTime", "launchedTime")
    """When the first task of the newest attempt ran."""
    attempt_ended_at_ms: int | None = number("appCompletedTime", "completedTime")
    exit_code: int | None = number("appExitCode")
    retries: int = amount("retries")
    gpus: int = amount("totalGpuNumber")
    tasks: int = amount("totalTaskNumber")
    id: str = text("debugId")
    """Never changes; names an archived job."""
    tags: tuple[str, ...] = texts("tags")
    priority: str = text("jobPriority")
    """crit, prod, test or oppo; empty for the default."""
    document: Document = whole()

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of matching jobs, and how many match in all."""

    jobs: tuple[JobSummary, ...]
    total: int
    document: Document = field(repr=False, compare=False)
    offset: int = 0
    """How many matching jobs precede these."""
    next: str = field(default="", repr=False)
    """The beginning of the next page; empty at the end, and if the server does not send it."""

    @classmethod
    def read(cls, document: Document, offset: int = 0, next_: str = "") -> JobPage:
        """Return one page of the server's list."""
        jobs = tuple(JobSummary.read(entry) for entry in document["data"])
        return cls(jobs, document["totalCount"], document, offset, next_)


@dataclass(frozen=True, slots=True)
class Result(Answer):
    """The result for one of many jobs."""

    job: str = text("job")
    is_done: bool = value("status", convert=lambda status: as_amount(status) < 400)
    message: str = text("message")
    code: str = text("code")
    """Name of the error; empty after success."""

    @classmethod
    def read(cls, document: Document, **given: Any) -> Self:
        """Return the result for one job."""
        result = super(Result, cls).read(document, **given)
        return result if result.is_done or result.code else replace(result, code="UnknownError")


@dataclass(frozen=True, slots=True)
class Results(Answer):
    """The results for many jobs."""

    results: tuple[Result, ...] = parts(Result, "results", is_needed=True)
    more: int = amount("more")
    """How many more match."""
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Restart(Answer):
    """An attempt that began because a user restarted the job."""

    attempt: int = amount("attemptId")
    at_ms: int | None = number("time")
    message: str = text("message")
    """The user and the reason."""


def _seconds(minutes: Any) -> float | None:
    return minutes * 60 if isinstance(minutes, int | float) else None


def _tasks(roles: Any) -> tuple[TaskView, ...]:
    return tuple(
        TaskView.read(task, role=role)
        for role, view in (roles or {}).items()
        for task in view.get("taskStatuses") or ()
    )


@dataclass(frozen=True, slots=True)
class JobDetail(Answer):
    """One job with every task of one of its attempts."""

    user: str = text("jobStatus.username")
    name: str = text("name")
    state: str = text("jobStatus.state")
    execution_type: str = text("jobStatus.executionType")
    virtual_cluster: str = text("jobStatus.virtualCluster")
    retries: int = amount("jobStatus.retries")
    attempt: int | None = number("jobStatus.attemptId")
    submitted_at_ms: int | None = number("jobStatus.submissionTime")
    started_at_ms: int | None = number("jobStatus.launchedTime")
    """When the first task of any attempt ran."""
    ended_at_ms: int | None = number("jobStatus.completedTime")
    attempt_started_at_ms: int | None = number("jobStatus.appLaunchedTime")
    """When the first task of this attempt ran."""
    attempt_ended_at_ms: int | None = number("jobStatus.appCompletedTime")
    time_limit_s: float | None = value("timeLimitMinutes", convert=_seconds)
    """How long an attempt may run; None: without limit."""
    restarts: tuple[Restart, ...] = parts(Restart, "restarts")
    """Attempts that users requested, oldest first; every other attempt but the first is a retry."""
    exit_code: int | None = number("jobStatus.appExitCode")
    exit_phrase: str = text("jobStatus.appExitSpec.phrase")
    exit_diagnostics: str = text("jobStatus.appExitDiagnostics")
    trigger_role: str = text("jobStatus.appExitTriggerTaskRoleName")
    """Role of the task that decided how the attempt ended; empty if none did."""
    trigger_index: int | None = number("jobStatus.appExitTriggerTaskIndex")
    trigger_message: str = text("jobStatus.appExitTriggerMessage")
    tasks: tuple[TaskView, ...] = value("taskRoles", convert=_tasks)
    document: Document = whole()

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"

    @property
    def is_final(self) -> bool:
        """Return whether the job is finished."""
        return self.state in FINAL_STATES

    @property
    def retried(self) -> int:
        """Return how many retries the platform began by itself."""
        return max(0, self.retries - len(self.restarts))

    @property
    def restart(self) -> Restart | None:
        """Return the restart that began this attempt, if it was one."""
        return next((one for one in self.restarts if one.attempt == self.attempt), None)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the names of the task roles in the order of the job file."""
        return tuple(self.document.get("taskRoles") or {})

    def task(self, role: str, index: int) -> TaskView | None:
        """Return one task, or None when the job has no such task."""
        return next((task for task in self.tasks if task.role == role and task.index == index), None)
