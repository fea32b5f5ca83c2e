"""The store of jobs.

Writes are atomic. Each stored job has a version, a change names the version it started from, and the store refuses it
if another change came first. The store also refuses to grant a device twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from openpai.access.quotas import Quota
from openpai.lifecycle.model import AttemptKey, Job, JobPhase, Task, TaskId
from openpai.ports.usage import AuditEntry
from openpai.protocol.job import JobSpec

LEASE_MS: Final = 7_000
"""How long the lease lasts after its last renewal."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The node of a task attempt, and what it holds there."""

    node: str
    address: str
    devices: tuple[int, ...]
    ports: Mapping[str, tuple[int, ...]]
    grant: int
    placement_hint: str = ""
    """What the scheduler needs to restore the task on exactly the same cells."""
    gpus: int = 0
    """GPUs, CPUs and memory that count as used, even while the task leaves them idle."""
    cpus: int = 0
    memory_mb: int = 0
    is_alone: bool = False
    """Whether the task was placed by itself although its job is a gang: it was added to those that run."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Secrets of a job, encrypted."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as the store and the orchestrator keep it."""

    job: Job
    user: str
    name: str
    virtual_cluster: str
    priority: int
    spec: JobSpec
    """The specification without its secrets, which are in `sealed`."""
    sealed: Sealed | None = None
    priority_class: str | None = None
    slots: Mapping[TaskId, Slot] = field(default_factory=dict)
    """What each task of the current attempt holds."""
    version: int = 0
    rank: int = 0
    """Set by an administrator: among equal priorities a higher rank goes first."""
    time_limit_ms: int | None = None
    """How long an attempt may run."""
    checkpoint_at_ms: int | None = None
    """When its owner reported last that its work is saved."""
    is_private: bool = False
    """Whether only its owner and managers may read its file."""

    @property
    def full_name(self) -> str:
        """Return `user~job`, its name in the API."""
        return f"{self.user}~{self.name}"

    @property
    def submitted_at_ms(self) -> int:
        """Return when it was submitted."""
        return self.job.submitted_at_ms


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's history. `reason` is a CamelCase word for programs, `message` a sentence for people."""

    job: str
    at_ms: int
    reason: str
    message: str
    job_attempt: int
    key: AttemptKey | None = None
    node: str | None = None
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class NewJob:
    """A submission, ready to be stored in one transaction."""

    record: JobRecord
    config_text: str
    """The job file as its owner may read it back, with secrets masked: `protocol.writing.dump_masked`'s text."""
    gpus_total: int
    event: Event
    idempotency_key: str = ""
    """The client's key of this submission: the same key again means the same job. Empty: none."""
    audit: AuditEntry | None = None
    quotas: tuple[Quota, ...] = ()
    """Those that limit unfinished jobs or GPU hours of its owner."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one job, refused if the job's version is no longer that of `before`."""

    before: JobRecord
    after: JobRecord
    tasks: tuple[tuple[Task, Slot | None], ...]
    """Task attempts that changed, as they are now, each with its slot: all are of `after`'s or `before`'s attempt."""
    job_attempt: int
    """Which job attempt `tasks` belong to."""
    ended: Job | None = None
    """The job as it was at the end of an attempt, when this step ended one."""
    granted: tuple[tuple[str, int, int], ...] = ()
    """(node, device, grant) that this step takes."""
    released: tuple[tuple[str, int, int], ...] = ()
    """(node, device, grant) that this step gives back."""
    events: tuple[Event, ...] = ()
    quotas: tuple[Quota, ...] = ()
    """Those that limit unfinished jobs or GPU hours of its owner, for a step that lets a final job run again."""
    idle: tuple[tuple[int, int], ...] = ()
    """From when to when all GPUs of the attempt were idle and counted as wasted: that time cannot be lost any more."""


class Saved(StrEnum):
    """The result of a change."""

    YES = "yes"
    STALE = "stale"
    """Another change came first: load the job again."""
    DEVICE_TAKEN = "device_taken"
    """A device it would take is granted already."""


class AlreadySubmitted(Exception):
    """A submission with this idempotency key exists: `job` is its id, `name` its name."""

    def __init__(self, job: str, name: str) -> None:
        super().__init__(f"job {name} was submitted under this key already")
        self.job = job
        self.name = name


class LeaseLost(Exception):
    """Another server leads now; nothing was written."""


class JobStore(Protocol):
    """Stores jobs, for the orchestrator."""

    async def add_job(self, new: NewJob, epoch: int | None) -> None:
        """Add a submitted job; durable when this returns. Raises Refused ConflictJobError for a name that exists.

        Archived jobs do not keep their names. Raises `AlreadySubmitted` for an idempotency key its owner used before,
        and `BeyondQuota` for a job that its `quotas` leave no room for, however many servers add jobs at the same time,
        and `OverBudget` for one that asks for GPUs while a budget of its owner, a group or its virtual cluster is used
        up.

        Unless `epoch` is the newest lease, the job goes into the inbox of the leader.
        """

    async def add_jobs(self, new: Sequence[NewJob], epoch: int | None) -> None:
        """Add all these jobs of one owner, or none, as `add_job` does. The first one's key and quotas hold for all."""

    async def submitted(self, user: str, idempotency_key: str) -> tuple[str, str] | None:
        """Return id and name of the job that a user submitted under a key, None if there is none."""

    async def forget_keys(self, before_ms: int) -> int:
        """Delete the keys of submissions before that time; return how many there were."""

    async def forget_events(self, before_ms: int) -> int:
        """Delete events before that time; return how many there were."""

    async def load(self, job: str) -> JobRecord | None:
        """Return one job whatever its phase, with the tasks of its current attempt."""

    async def find(self, user: str, name: str) -> str | None:
        """Return the id of a job that is not archived, or None."""

    async def phases(self, ids: Sequence[str]) -> Mapping[str, JobPhase]:
        """Return the phase of each of these jobs that exists, archived or not."""

    async def active(self) -> tuple[JobRecord, ...]:
        """Return every job that is not final, oldest submission first."""

    async def save(self, changes: Sequence[Change], epoch: int | None, *, notify: bool = False) -> tuple[Saved, ...]:
        """Save each change or say why not; those that are saved are durable when this returns.

        `epoch` is the lease under which the caller leads: raises LeaseLost, writing nothing, when it is no longer
        the newest. None for a server that does not lead and may only record requests. Raises `BeyondQuota`, writing
        nothing, when the `quotas` of a change, or budgets, leave no room for a final job to run again.
        """

    async def take_inbox(self, limit: int, epoch: int) -> tuple[str, ...]:
        """Return ids of jobs that other servers changed, and remove them from the inbox.

        Raises LeaseLost, removing nothing, when `epoch` is no longer the newest lease.
        """

    async def lease(self, holder: str, now_ms: int, ttl_ms: int, url: str = "") -> int | None:
        """Take or renew the lease of the leader; return its epoch, or None while another server holds it.

        `url` is where other servers reach the holder.

        A holder is `PLACE/PROCESS`. Only one process may use a place at a time, so a second process of the same place
        takes over at once. Those of other places wait until they have seen no renewal for `ttl_ms`, by a clock of
        their own that is never set: the wall clocks of two servers are never compared. `now_ms` is only shown.
        """

    async def leader_url(self, ttl_ms: int) -> str:
        """Return the URL of the leader, empty if there is none or it has no URL.

        A leader that did not renew its lease for `ttl_ms` leads no longer.
        """

    async def check_lease(self, epoch: int) -> None:
        """Raise LeaseLost when `epoch` is no longer the newest lease."""

    async def release_lease(self, holder: str) -> None:
        """Give the lease back."""
