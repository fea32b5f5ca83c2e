"""Queries about jobs.

The answers are plain rows, shaped for lists and details, without anything of a database in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openpai.lifecycle.model import AttemptKey, Diagnosis, ExitReport, Outcome, TaskId
from openpai.ports.store import Event, Slot
from openpai.protocol.job import JobSpec


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job for lists and details."""

    id: str
    user: str
    name: str
    phase: str
    virtual_cluster: str
    priority_class: str | None
    submitted_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    attempt: int
    attempt_at_ms: int | None
    attempt_started_at_ms: int | None
    attempt_ended_at_ms: int | None
    retries_counted: int
    retries_free: int
    retry_at_ms: int | None
    is_stop_requested: bool
    outcome: Outcome | None
    gpus_total: int
    tasks_total: int
    roles_total: int
    tags: tuple[str, ...] = ()
    rank: int = 0
    is_private: bool = False
    archived_at_ms: int | None = None
    time_limit_ms: int | None = None
    checkpoint_at_ms: int | None = None
    version: int = 0
    """Grows with every change of the job and of its tasks."""

    @property
    def full_name(self) -> str:
        """Return the name that users know it by."""
        return f"{self.user}~{self.name}"


@dataclass(frozen=True, slots=True)
class JobAttemptRow:
    """One finished attempt of a job."""

    attempt: int
    outcome: Outcome
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None


@dataclass(frozen=True, slots=True)
class TaskAttemptRow:
    """One task attempt: when, where, with what, and how it ended."""

    key: AttemptKey
    phase: str
    retries_counted: int
    retries_free: int
    slot: Slot | None
    granted_at_ms: int | None
    started_at_ms: int | None
    ended_at_ms: int | None
    retry_at_ms: int | None
    report: ExitReport | None
    diagnosis: Diagnosis | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as stored, with its number in the log."""

    id: int
    event: Event


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A job to which an event happened: what decides who may see it."""

    id: int
    """The number of the event in the log."""
    user: str
    name: str
    virtual_cluster: str
    submitted_at_ms: int
    is_private: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """Jobs with events after a number, oldest event first, and the number of the newest event of all."""

    newest: int
    jobs: tuple[ChangedJob, ...]


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the list: after this job, whose values of the sort keys are given."""

    value: str | int | None
    job: str


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list. Conditions are joined by AND; the values of one condition by OR; empty means any."""

    users: tuple[str, ...] = ()
    virtual_clusters: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    priority_classes: tuple[str | None, ...] = ()
    """None stands for jobs without a class."""
    keyword: str = ""
    """Part of the user's name, the job's name or the virtual cluster."""
    tags_any: tuple[str, ...] = ()
    tags_none: tuple[str, ...] = ()
    sweeps: tuple[str, ...] = ()
    """Jobs of sweeps with these names."""
    submitted_from_ms: int | None = None
    submitted_to_ms: int | None = None
    ids: tuple[str, ...] | None = None
    """Only these jobs, by their ids."""
    is_archived: bool = False
    """List archived jobs instead of the others."""
    order: str = "submissionTime"
    """jobName, submissionTime, username, vc, retries, totalTaskNumber, totalGpuNumber, state, completionTime or
    jobPriority; jobs without a value for it go last ascending and first descending."""
    is_ascending: bool = False
    after: Cursor | None = None
    """List the jobs after this position; unlike an offset, its cost does not grow with the distance."""
    offset: int = 0
    limit: int = 5000


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs; `total` counts all that match, or is None when it was not requested."""

    jobs: tuple[JobRow, ...]
    total: int | None
    end: Cursor | None = None
    """Where the page ends; None when no job comes after it."""


class JobQueries(Protocol):
    """The queries of entrances about jobs."""

    async def jobs(self, where: JobFilter, *, count: bool) -> JobPage:
        """Return one page of jobs. A total that takes long to count may be some seconds old."""

    async def job(self, user: str, name: str) -> JobRow | None:
        """Return one job that is not archived."""

    async def job_of_id(self, job: str) -> JobRow | None:
        """Return one job by its id, archived or not."""

    async def running(self) -> tuple[tuple[JobRow, TaskAttemptRow], ...]:
        """Return every task attempt that holds resources, with its job."""

    async def config(self, job: str) -> str | None:
        """Return the job file with secrets masked, for `protocol.writing.masked_yaml`."""

    async def spec(self, job: str) -> JobSpec | None:
        """Return the specification without its secrets, None for a job that does not exist."""

    async def job_attempts(self, job: str) -> tuple[JobAttemptRow, ...]:
        """Return the finished attempts of a job, oldest first."""

    async def task_attempts(self, job: str, job_attempt: int, task: TaskId | None = None) -> tuple[TaskAttemptRow, ...]:
        """Return every task attempt of one job attempt, or of one task in it, by role, index and attempt.

        Tasks that were never granted have none.
        """

    async def events(self, job: str, kind: str | None = None, *, reason: str | None = None) -> tuple[EventRow, ...]:
        """Return a job's events, newest first; only "Normal" or "Warning" ones, or those of one reason, if given."""

    async def changes(self, after: int, limit: int) -> Changes:
        """Return the jobs of the first events after a number; a job with several events is there several times."""

    async def set_tag(self, job: str, tag: str) -> None:
        """Put a tag on a job; harmless when it is there."""

    async def remove_tag(self, job: str, tag: str) -> bool:
        """Take a tag off a job; return whether it was there."""

    async def archive(self, job: str, at_ms: int) -> bool:
        """Archive a job, so that its name is free; return False for one that is not final."""

    async def unarchive(self, job: str) -> None:
        """Unarchive a job; raise Refused ConflictJobError when its name is taken. Harmless for other jobs."""

    async def attempt_keys(self, job: str) -> tuple[AttemptKey, ...]:
        """Return every task attempt a job ever had."""

    async def delete(self, job: str) -> bool:
        """Delete a job and everything about it except the hours it used; return False for one that is not final."""
