"""Facts: what happened to a job, in the past tense, each with the attempt it is about.

Times are milliseconds since the epoch and always come from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openpai.lifecycle.model import AttemptKey, Diagnosis, ExitReport, TaskId
from openpai.lifecycle.rescaling import RoleScale


@dataclass(frozen=True, slots=True)
class Released:
    """Everything that a held job waited for has happened."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class DependencyMissed:
    """What a held job waits for cannot happen any more; `why` names it."""

    at_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class TasksGranted:
    """Devices were granted to these tasks of a job attempt, each under the number of its grant."""

    job_attempt: int
    grants: Mapping[TaskId, int]
    at_ms: int


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task attempt was seen running."""

    key: AttemptKey
    at_ms: int


@dataclass(frozen=True, slots=True)
class TaskExited:
    """A task attempt ended, and nothing of it runs any more."""

    key: AttemptKey
    report: ExitReport
    diagnosis: Diagnosis
    at_ms: int


@dataclass(frozen=True, slots=True)
class RootFound:
    """All tasks of a job attempt ended, and this one is the root of the failure: the others followed from it."""

    job_attempt: int
    task: TaskId
    code: int
    diagnosis: Diagnosis
    at_ms: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Its owner or an administrator asked for the job to end. It holds for all attempts, so it names none."""

    at_ms: int
    by: str
    reason: str = ""
    is_restart: bool = False
    """Whether the job starts again after it ended."""


@dataclass(frozen=True, slots=True)
class StartRequested:
    """Its owner or an administrator asked for a finished job, or one that is being stopped, to run again."""

    at_ms: int
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Preempted:
    """The grants of a job attempt were taken back: for a job that goes before it, or because its node is drained."""

    job_attempt: int
    at_ms: int
    why: str
    is_drain: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionLost:
    """The queue of the cluster that admitted a job took that back: whatever runs of it has to leave."""

    at_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class TimeLimitReached:
    """An attempt reached the time limit of its job."""

    job_attempt: int
    at_ms: int
    limit_ms: int


@dataclass(frozen=True, slots=True)
class RetryDue:
    """A job, or tasks of it, that back off until one of the times `due` may be tried again.

    The times are waited for by a clock that is never set, so they may lie before or after `at_ms`. None means
    everything that backs off until `at_ms`.
    """

    at_ms: int
    due: frozenset[int] | None = None

    def is_for(self, retry_at_ms: int | None) -> bool:
        """Return whether a retry at this time is due."""
        return (retry_at_ms or 0) <= self.at_ms if self.due is None else retry_at_ms in self.due


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A user changed the number of tasks of task roles. It holds for later attempts, too, so it names none."""

    at_ms: int
    roles: Mapping[str, RoleScale]


Fact = (
    Released
    | DependencyMissed
    | TasksGranted
    | TaskStarted
    | TaskExited
    | RootFound
    | StopRequested
    | StartRequested
    | Preempted
    | AdmissionLost
    | TimeLimitReached
    | RetryDue
    | Rescaled
)
