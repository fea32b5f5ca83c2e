"""Jobs as the server tells of them: one line of the list, or one with every task."""

from __future__ import annotations

from dataclasses import dataclass, field

from openpai.client.model.reading import Document, amount, exit_phrase, number, text, texts
from openpai.client.model.tasks import FINAL_STATES, TaskView


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
        warnings = texts(document.get("warnings"))
        return cls(text(document.get("user")), text(document.get("name")), warnings, document)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One line of the list of jobs."""

    user: str
    name: str
    state: str
    virtual_cluster: str
    submitted_at_ms: int | None
    started_at_ms: int | None
    """When the first task of any attempt ran."""
    ended_at_ms: int | None
    attempt_started_at_ms: int | None
    """When the first task of the newest attempt ran."""
    attempt_ended_at_ms: int | None
    exit_code: int | None
    retries: int
    gpus: int
    tasks: int
    id: str
    """Names it for good, in the archive too."""
    tags: tuple[str, ...]
    priority: str
    """crit, prod, test or oppo; empty for the default."""
    document: Document = field(repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"

    @classmethod
    def read(cls, document: Document) -> JobSummary:
        """Return one entry of the server's list."""
        return cls(
            user=text(document.get("username")),
            name=text(document.get("name")),
            state=text(document.get("state")),
            virtual_cluster=text(document.get("virtualCluster")),
            submitted_at_ms=number(document.get("submissionTime")),
            started_at_ms=number(document.get("launchedTime")),
            ended_at_ms=number(document.get("completedTime")),
            attempt_started_at_ms=number(document.get("appLaunchedTime", document.get("launchedTime"))),
            attempt_ended_at_ms=number(document.get("appCompletedTime", document.get("completedTime"))),
            exit_code=number(document.get("appExitCode")),
            retries=amount(document.get("retries")),
            gpus=amount(document.get("totalGpuNumber")),
            tasks=amount(document.get("totalTaskNumber")),
            id=text(document.get("debugId")),
            tags=texts(document.get("tags")),
            priority=text(document.get("jobPriority")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of the jobs that match, and how many match in all."""

    jobs: tuple[JobSummary, ...]
    total: int
    document: Document = field(repr=False, compare=False)
    offset: int = 0
    """How many that match were left out before these."""
    next: str = field(default="", repr=False)
    """Where the page after this one begins; empty at the end, and of servers that do not tell."""

    @classmethod
    def read(cls, document: Document, offset: int = 0, next_: str = "") -> JobPage:
        """Return one page of the server's list."""
        jobs = tuple(JobSummary.read(entry) for entry in document["data"])
        return cls(jobs, document["totalCount"], document, offset, next_)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one of many jobs."""

    job: str
    is_done: bool
    message: str
    code: str
    """Name of the error; empty when it was done."""

    @classmethod
    def read(cls, document: Document) -> Result:
        """Return what the server says of one job."""
        is_done = amount(document.get("status")) < 400
        code = "" if is_done else text(document.get("code")) or "UnknownError"
        return cls(text(document.get("job")), is_done, text(document.get("message")), code)


@dataclass(frozen=True, slots=True)
class Results:
    """What became of many jobs."""

    results: tuple[Result, ...]
    more: int
    """How many match beyond those."""
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Results:
        """Return what the server says of each job."""
        return cls(tuple(map(Result.read, document["results"])), amount(document.get("more")), document)


@dataclass(frozen=True, slots=True)
class Restart:
    """An attempt that began because somebody wanted the job to run again."""

    attempt: int
    at_ms: int | None
    message: str
    """Who wanted that, and why."""

    @classmethod
    def read(cls, document: Document) -> Restart:
        """Return one entry of a job's restarts."""
        return cls(amount(document.get("attemptId")), number(document.get("time")), text(document.get("message")))


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
    """When the first task of any attempt ran."""
    ended_at_ms: int | None
    attempt_started_at_ms: int | None
    """When the first task of this attempt ran."""
    attempt_ended_at_ms: int | None
    time_limit_s: float | None
    """How long an attempt may run; None for as long as it likes."""
    restarts: tuple[Restart, ...]
    """Attempts that people asked for, oldest first; every other attempt but the first is a retry."""
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
    def retried(self) -> int:
        """Return how many attempts the platform began by itself after the first."""
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

    @classmethod
    def read(cls, document: Document) -> JobDetail:
        """Return the detail of a job."""
        status = document.get("jobStatus") or {}
        minutes = document.get("timeLimitMinutes")
        tasks = [
            TaskView.read(role, task)
            for role, view in (document.get("taskRoles") or {}).items()
            for task in view.get("taskStatuses") or ()
        ]
        return cls(
            user=text(status.get("username")),
            name=text(document.get("name")),
            state=text(status.get("state")),
            execution_type=text(status.get("executionType")),
            virtual_cluster=text(status.get("virtualCluster")),
            retries=amount(status.get("retries")),
            attempt=number(status.get("attemptId")),
            submitted_at_ms=number(status.get("submissionTime")),
            started_at_ms=number(status.get("launchedTime")),
            ended_at_ms=number(status.get("completedTime")),
            attempt_started_at_ms=number(status.get("appLaunchedTime")),
            attempt_ended_at_ms=number(status.get("appCompletedTime")),
            time_limit_s=minutes * 60 if isinstance(minutes, int | float) else None,
            restarts=tuple(map(Restart.read, document.get("restarts") or ())),
            exit_code=number(status.get("appExitCode")),
            exit_phrase=exit_phrase(status.get("appExitSpec")),
            exit_diagnostics=text(status.get("appExitDiagnostics")),
            trigger_role=text(status.get("appExitTriggerTaskRoleName")),
            trigger_index=number(status.get("appExitTriggerTaskIndex")),
            trigger_message=text(status.get("appExitTriggerMessage")),
            tasks=tuple(tasks),
            document=document,
        )
