"""Jobs: one line of the list, or one with every task."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any, Self

from openpai.client.model import reading as field
from openpai.client.model.applications import Application
from openpai.client.model.job_events import Wait
from openpai.client.model.reading import Answer, Document
from openpai.client.model.tasks import FINAL_STATES, Cause, TaskProgress, TaskView, as_cause, as_progress


class _Named:
    __slots__ = ()
    user: str
    name: str

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"


@dataclass(frozen=True, slots=True)
class Submitted(_Named, Answer):
    """A job that was accepted and stored durably."""

    user: str = field.text("user")
    name: str = field.text("name")
    warnings: tuple[str, ...] = field.texts("warnings")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class CheckedJob(Answer):
    """A job file that could be submitted."""

    name: str = field.text("name")
    virtual_cluster: str = field.text("virtualCluster")
    gpus_total: int = field.amount("totalGpuNumber")
    warnings: tuple[str, ...] = field.texts("warnings")
    waits: tuple[Wait, ...] = field.parts(Wait, "waits")
    """Why it would wait if it were submitted now."""
    document: Document = field.whole()

    @property
    def would_start(self) -> bool | None:
        """Whether it would start now; None where the platform does not know."""
        return None if self.document.get("waits") is None else not self.waits


@dataclass(frozen=True, slots=True)
class JobSummary(_Named, Answer):
    """One line of the list of jobs."""

    user: str = field.text("username")
    name: str = field.text("name")
    state: str = field.text("state")
    virtual_cluster: str = field.text("virtualCluster")
    submitted_at_ms: int | None = field.number("submissionTime")
    started_at_ms: int | None = field.number("launchedTime")
    """When the first task of any attempt ran."""
    ended_at_ms: int | None = field.number("completedTime")
    attempt_started_at_ms: int | None = field.number("appLaunchedTime", "launchedTime")
    """When the first task of the newest attempt ran."""
    attempt_ended_at_ms: int | None = field.number("appCompletedTime", "completedTime")
    exit_code: int | None = field.number("appExitCode")
    retries: int = field.amount("retries")
    gpus: int = field.amount("totalGpuNumber")
    tasks: int = field.amount("totalTaskNumber")
    id: str = field.text("debugId")
    """Never changes; names an archived job."""
    tags: tuple[str, ...] = field.texts("tags")
    priority: str = field.text("jobPriority")
    """crit, prod, test or oppo; empty for the default."""
    progress: TaskProgress | None = field.value("progress", convert=as_progress)
    """Of the task that is least far."""
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of matching jobs, and how many match in all."""

    jobs: tuple[JobSummary, ...]
    total: int
    document: Document = dataclasses.field(repr=False, compare=False)
    offset: int = 0
    """How many matching jobs precede these."""
    next: str = dataclasses.field(default="", repr=False)
    """The beginning of the next page; empty at the end, and if the server does not send it."""

    @classmethod
    def read(cls, document: Document, offset: int = 0, next_: str = "") -> JobPage:
        """Return one page of the server's list."""
        jobs = tuple(JobSummary.read(entry) for entry in document["data"])
        return cls(jobs, document["totalCount"], document, offset, next_)


@dataclass(frozen=True, slots=True)
class Result(Answer):
    """The result for one of many jobs."""

    job: str = field.text("job")
    is_done: bool = field.value("status", convert=lambda status: field.as_amount(status) < 400)
    message: str = field.text("message")
    code: str = field.text("code")
    """Name of the error; empty after success."""

    @classmethod
    def read(cls, document: Document, **given: Any) -> Self:
        """Return the result for one job."""
        result = super(Result, cls).read(document, **given)
        return result if result.is_done or result.code else replace(result, code="UnknownError")


@dataclass(frozen=True, slots=True)
class Results(Answer):
    """The results for many jobs."""

    results: tuple[Result, ...] = field.parts(Result, "results", is_needed=True)
    more: int = field.amount("more")
    """How many more match."""
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class After(Answer):
    """A job that had to end before another one was queued."""

    job: str = field.text("job")
    until: str = field.text("until")
    """How it had to end: succeeded, failed or ended."""


@dataclass(frozen=True, slots=True)
class Restart(Answer):
    """An attempt that began because a user restarted the job."""

    attempt: int = field.amount("attemptId")
    at_ms: int | None = field.number("time")
    message: str = field.text("message")
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
class JobDetail(_Named, Answer):
    """One job with every task of one of its attempts."""

    user: str = field.text("jobStatus.username")
    name: str = field.text("name")
    state: str = field.text("jobStatus.state")
    execution_type: str = field.text("jobStatus.executionType")
    virtual_cluster: str = field.text("jobStatus.virtualCluster")
    priority: str = field.text("jobPriority")
    """crit, prod, test or oppo; empty for the default."""
    retries: int = field.amount("jobStatus.retries")
    attempt: int | None = field.number("jobStatus.attemptId")
    submitted_at_ms: int | None = field.number("jobStatus.submissionTime")
    started_at_ms: int | None = field.number("jobStatus.launchedTime")
    """When the first task of any attempt ran."""
    ended_at_ms: int | None = field.number("jobStatus.completedTime")
    attempt_started_at_ms: int | None = field.number("jobStatus.appLaunchedTime")
    """When the first task of this attempt ran."""
    attempt_ended_at_ms: int | None = field.number("jobStatus.appCompletedTime")
    time_limit_s: float | None = field.value("timeLimitMinutes", convert=_seconds)
    """How long an attempt may run; None: without limit."""
    is_interruptible: bool = field.flag("interruptible")
    """Whether it may borrow idle resources, and be preempted there."""
    after: tuple[After, ...] = field.parts(After, "after")
    """The jobs that had to end before it was queued."""
    applications: tuple[Application, ...] = field.parts(Application, "applications")
    """Servers in its tasks that browsers reach."""
    restarts: tuple[Restart, ...] = field.parts(Restart, "restarts")
    """Attempts that users requested, oldest first; every other attempt but the first is a retry."""
    checkpoint_at_ms: int | None = field.number("jobStatus.checkpointTime")
    """When its newest checkpoint was written, as far as the platform knows."""
    progress: TaskProgress | None = field.value("jobStatus.progress", convert=as_progress)
    """Of the task that is least far, while it runs."""
    exit_code: int | None = field.number("jobStatus.appExitCode")
    exit_phrase: str = field.text("jobStatus.appExitSpec.phrase")
    exit_diagnostics: str = field.text("jobStatus.appExitDiagnostics")
    cause: Cause = field.value("jobStatus.appExitCause", convert=as_cause)
    """The cause of a failed attempt, with the task that failed first."""
    trigger_role: str = field.text("jobStatus.appExitTriggerTaskRoleName")
    """Role of the task that decided how the attempt ended; empty if none did."""
    trigger_index: int | None = field.number("jobStatus.appExitTriggerTaskIndex")
    trigger_message: str = field.text("jobStatus.appExitTriggerMessage")
    tasks: tuple[TaskView, ...] = field.value("taskRoles", convert=_tasks)
    document: Document = field.whole()

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
