"""Quotas, used hours, and the audit log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from openpai.access.budgets import Budget, BudgetState, Kind, Period
from openpai.access.quotas import Quota

LIMITS: Final = ("gpus_running", "gpus_per_job", "jobs_unfinished", "gpu_hours_per_month")


class BeyondQuota(Exception):
    """`quota` has no room for one more job: `count` jobs are unfinished, or `gpu_hours` are used."""

    def __init__(self, quota: Quota, count: int = 0, gpu_hours: float | None = None) -> None:
        super().__init__(f"{count} unfinished jobs, {gpu_hours} GPU hours, and {quota} allowed")
        self.quota = quota
        self.count = count
        self.gpu_hours = gpu_hours


class OverBudget(BeyondQuota):
    """`budget` was used up at `now_ms`: `hours` of its GPU hours are used."""

    def __init__(self, budget: Budget, hours: float, now_ms: int) -> None:
        super().__init__(Quota(), gpu_hours=hours)
        self.budget = budget
        self.now_ms = now_ms


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A budget, and the GPU hours that count for it in its present period."""

    budget: Budget
    hours: float


@dataclass(frozen=True, slots=True)
class UseRow:
    """The use of one user in one virtual cluster on one day (UTC); without a user, what the virtual cluster lent."""

    day: str
    """YYYY-MM-DD."""
    user: str
    virtual_cluster: str
    gpu_hours: float
    cpu_hours: float
    memory_gb_hours: float
    task_attempts: int
    gpu_hours_borrowed: float = 0.0
    """The part of the GPU hours without a guarantee, as measured while jobs ran."""
    gpu_hours_lent: float = 0.0
    """What the virtual cluster lent to others, in a row without a user."""
    jobs_moved: int = 0
    """How often a job was moved to make room for another one."""
    gpu_hours_moved: float = 0.0
    """The work that these jobs did again."""
    gpu_hours_idle: float = 0.0
    """Held by running jobs that did not use them."""
    gpu_hours_failed: float = 0.0
    """Work that was lost because the platform failed."""
    gpu_hours_preempted: float = 0.0
    """Work that was lost because other jobs, or an administrator who drained a node, took the resources."""


@dataclass(frozen=True, slots=True)
class LentUse:
    """GPU time that a user of a virtual cluster borrowed, wasted or, by moves, did again, or that one lent."""

    virtual_cluster: str
    user: str = ""
    """Empty for time that was lent."""
    borrowed_gpu_ms: float = 0.0
    lent_gpu_ms: float = 0.0
    jobs_moved: int = 0
    moved_gpu_ms: float = 0.0
    idle_gpu_ms: float = 0.0
    failed_gpu_ms: float = 0.0
    preempted_gpu_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class RunTimeRow:
    """How long the last attempt of a finished job ran."""

    user: str
    name: str
    virtual_cluster: str
    gpus: int
    submitted_at_ms: int
    ran_ms: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A request that changed the platform, or tried to."""

    at_ms: int
    actor: str
    """The user; empty for a guest."""
    action: str
    """The action's name in `access.table`, such as `group.change`."""
    target: str
    """What the request was about, such as `team-a` or `alice~train`."""
    owner: str = ""
    """The owner of that, who may read the entry too."""
    via: str = ""
    """`login`, or the name of an application token."""
    address: str = ""
    status: int = 200
    """The result of the request."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Details of the request, without secrets."""


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
    """Entries by this user or about something that belongs to them."""
    from_ms: int | None = None
    to_ms: int | None = None
    before_id: int | None = None
    limit: int = 100


class UsageStore(Protocol):
    """Stores quotas and the audit log, and adds up use."""

    async def quotas(self) -> tuple[Quota, ...]:
        """Return all quotas, by virtual cluster and user."""

    async def set_quota(self, quota: Quota, limits: Collection[str] = LIMITS) -> None:
        """Set the quota of one user in one virtual cluster; other limits of an existing quota stay."""

    async def remove_quota(self, virtual_cluster: str, user: str) -> bool:
        """Delete a quota; return whether it existed."""

    async def unfinished(self, user: str) -> Mapping[str, int]:
        """Return how many jobs of a user wait or run, by virtual cluster."""

    async def gpus_held(self, user: str) -> Mapping[str, int]:
        """Return how many GPUs the jobs of a user hold now, by virtual cluster."""

    async def gpu_hours_this_month(self, user: str, now_ms: int) -> Mapping[str, float]:
        """Return the GPU hours of a user since the first of the month (UTC), by virtual cluster, quickly.

        The same hours as in `use`, with those of running jobs until now.
        """

    async def budgets(self, now_ms: int) -> tuple[BudgetUse, ...]:
        """Return every budget with its use, by kind, name and period."""

    async def budgets_of(self, user: str, virtual_clusters: Sequence[str], now_ms: int) -> tuple[BudgetUse, ...]:
        """Return the budgets of a user, of their groups, and of these virtual clusters, with their use."""

    async def set_budget(self, budget: Budget) -> None:
        """Add or replace a budget; its state stays."""

    async def remove_budget(self, kind: Kind, name: str, period: Period) -> bool:
        """Delete a budget; return whether it existed."""

    async def set_budget_state(self, budget: Budget, state: BudgetState, epoch: int | None) -> None:
        """Record what was done about a budget; raise LeaseLost, writing nothing, if `epoch` is over."""

    async def use(
        self, from_ms: int, to_ms: int, *, users: Sequence[str] = (), virtual_clusters: Sequence[str] = ()
    ) -> tuple[UseRow, ...]:
        """Return the use between two times by day, user and virtual cluster, running jobs included."""

    async def add_lent_use(self, rows: Sequence[LentUse], at_ms: int, epoch: int | None) -> None:
        """Add GPU time to the day of `at_ms`; raise LeaseLost, writing nothing, if `epoch` is over."""

    async def run_times(self, limit: int) -> tuple[RunTimeRow, ...]:
        """Return how long finished jobs ran, of the `limit` submitted last, in the order of their ends."""

    async def note(self, entry: AuditEntry) -> None:
        """Add an entry to the audit log; durable when this returns."""

    async def audit(self, where: AuditFilter) -> tuple[AuditRow, ...]:
        """Return entries of the audit log."""

    async def forget_audit(self, before_ms: int) -> int:
        """Delete entries older than that time, in batches; return how many there were."""
