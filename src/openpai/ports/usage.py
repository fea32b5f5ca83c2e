"""Limits and what was used: quotas, the account of hours, and the audit log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from openpai.access.quotas import Quota

LIMITS: Final = ("gpus_running", "gpus_per_job", "jobs_unfinished", "gpu_hours_per_month")


class BeyondQuota(Exception):
    """One more job would be one too many for `quota`: for the `count` of unfinished ones, or for the GPU hours used."""

    def __init__(self, quota: Quota, count: int = 0, gpu_hours: float | None = None) -> None:
        super().__init__(f"{count} unfinished jobs, {gpu_hours} GPU hours, and {quota} allowed")
        self.quota = quota
        self.count = count
        self.gpu_hours = gpu_hours


@dataclass(frozen=True, slots=True)
class UseRow:
    """What was used on one day (UTC) by one user in one virtual cluster."""

    day: str
    """YYYY-MM-DD."""
    user: str
    virtual_cluster: str
    gpu_hours: float
    cpu_hours: float
    memory_gb_hours: float
    task_attempts: int


@dataclass(frozen=True, slots=True)
class RunTimeRow:
    """How long the last attempt of a job ran that is over."""

    user: str
    name: str
    virtual_cluster: str
    gpus: int
    submitted_at_ms: int
    ran_ms: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Somebody did, or tried to do, something that changes the platform."""

    at_ms: int
    actor: str
    """Who; empty for a guest."""
    action: str
    """The action's name in `access.table`, such as `group.change`."""
    target: str
    """What it was done to, such as `team-a` or `alice~train`."""
    owner: str = ""
    """Whose thing it was: they may read the entry too."""
    via: str = ""
    """`login`, or the name of an application token."""
    address: str = ""
    status: int = 200
    """How it was answered."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What of the request is worth keeping; never a secret."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An audit entry as stored, with its number."""

    id: int
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries to list; empty means any. Newest first."""

    actors: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    target: str = ""
    concerning: str = ""
    """Entries made by this user or about something that is theirs."""
    from_ms: int | None = None
    to_ms: int | None = None
    before_id: int | None = None
    limit: int = 100


class UsageStore(Protocol):
    """Remembers quotas and the audit log, and counts what was used."""

    async def quotas(self) -> tuple[Quota, ...]:
        """Return all quotas, by virtual cluster and user."""
        ...

    async def set_quota(self, quota: Quota, limits: Collection[str] = LIMITS) -> None:
        """Remember or replace the quota of one user in one virtual cluster; of one there is, only these limits."""
        ...

    async def remove_quota(self, virtual_cluster: str, user: str) -> bool:
        """Forget a quota; return whether there was one."""
        ...

    async def unfinished(self, user: str) -> Mapping[str, int]:
        """Return how many jobs of a user wait or run, by virtual cluster."""
        ...

    async def gpus_held(self, user: str) -> Mapping[str, int]:
        """Return how many GPUs the jobs of a user hold now, by virtual cluster."""
        ...

    async def gpu_hours_this_month(self, user: str, now_ms: int) -> Mapping[str, float]:
        """Return the GPU hours of a user since the first of the month (UTC), by virtual cluster; cheap to ask.

        They are those that `use` counts, for what still runs until now.
        """
        ...

    async def use(
        self, from_ms: int, to_ms: int, *, users: Sequence[str] = (), virtual_clusters: Sequence[str] = ()
    ) -> tuple[UseRow, ...]:
        """Return what was held between two times, by day, user and virtual cluster; what still runs counts too."""
        ...

    async def run_times(self, limit: int) -> tuple[RunTimeRow, ...]:
        """Return how long jobs ran that are over, of the `limit` submitted last; those that ended last come last."""
        ...

    async def note(self, entry: AuditEntry) -> None:
        """Add an entry to the audit log; durable when this returns."""
        ...

    async def audit(self, where: AuditFilter) -> tuple[AuditRow, ...]:
        """Return entries of the audit log."""
        ...

    async def forget_audit(self, before_ms: int) -> int:
        """Remove entries made before that time, oldest first and some at a time; return how many there were."""
        ...
