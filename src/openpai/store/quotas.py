"""Checks whether quotas have room for one more job of a user, and counts GPU hours for them.

The GPU hours of a month are added up as task attempts end, in the transaction that ends them: one row for each owner,
month and virtual cluster. Running attempts are counted when a quota is checked. A check therefore costs the same after
ten attempts as after a million, and gives the same answer as counting all of them. Deleting a job takes nothing away.

Quotas are checked in the transaction that adds the job. SQLite has one writer at a time among all servers. Servers over
PostgreSQL take the lock named by `locks.quota_lock` first, so that no other job of the user is added meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from openpai.access.quotas import Quota
from openpai.ports.store import Change
from openpai.ports.usage import BeyondQuota
from openpai.store.schema import jobs, month_use, task_attempts

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KEY: Final = ("owner", "month_ms", "virtual_cluster")


def month_of(at_ms: int) -> int:
    """Return the start of the month of a time, in UTC."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return (at.replace(day=1, hour=0, minute=0, second=0, microsecond=0) - _EPOCH) // timedelta(milliseconds=1)


def count_ends(dialect: Any) -> sa.Executable:
    """Return the statement, in the dialect of a database, that adds rows of `ends_of` to the counted hours."""
    insert = dialect.insert(month_use)
    more = {"gpu_ms": month_use.c.gpu_ms + insert.excluded.gpu_ms}
    statement: sa.Executable = insert.on_conflict_do_update(index_elements=list(_KEY), set_=more)
    return statement


def ends_of(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Return the use of task attempts that end in these changes, as rows in a fixed order."""
    sums: defaultdict[tuple[str, int, str], int] = defaultdict(int)
    for change in changes:
        for task, slot in change.tasks:
            # An ended attempt never changes, so each is counted once.
            if slot is None or not slot.gpus or task.granted_at_ms is None or task.ended_at_ms is None:
                continue
            for month_ms, held_ms in _split(task.granted_at_ms, task.ended_at_ms):
                sums[change.after.user, month_ms, change.after.virtual_cluster] += slot.gpus * held_ms
    return [{**dict(zip(_KEY, key, strict=True)), "gpu_ms": sums[key]} for key in sorted(sums)]


def _split(start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    """Yield each month of a period, with the length of the period in it."""
    while start_ms < end_ms:
        month_ms = month_of(start_ms)
        until_ms = min(end_ms, month_of(month_ms + 32 * _DAY_MS))
        yield month_ms, until_ms - start_ms
        start_ms = until_ms


def gpu_hours(connection: sa.Connection, owner: str, now_ms: int) -> Mapping[str, float]:
    """Return the GPU hours that a user used since the month began, by virtual cluster."""
    month_ms = month_of(now_ms)
    ended = sa.select(month_use.c.virtual_cluster, month_use.c.gpu_ms).where(
        month_use.c.owner == owner, month_use.c.month_ms == month_ms
    )
    attempts = task_attempts.c
    since = sa.case((attempts.granted_at_ms < month_ms, month_ms), else_=attempts.granted_at_ms)
    held = attempts.gpus * (now_ms - since)
    running = sa.select(attempts.virtual_cluster, sa.cast(held, sa.BigInteger)).where(
        attempts.ended_at_ms.is_(None), attempts.granted_at_ms < now_ms, attempts.owner == owner, attempts.gpus > 0
    )
    # One statement: between two, an attempt that just ended would be missing from both.
    return _by_cluster(connection.execute(sa.union_all(ended, running)).all())


def gpus_held(connection: sa.Connection, owner: str) -> Mapping[str, int]:
    """Return how many GPUs a user holds now, by virtual cluster."""
    attempts = task_attempts.c
    query = (
        sa.select(attempts.virtual_cluster, sa.func.sum(attempts.gpus))
        .where(attempts.ended_at_ms.is_(None), attempts.granted_at_ms >= 0, attempts.owner == owner, attempts.gpus > 0)
        .group_by(attempts.virtual_cluster)
    )
    return {row[0]: int(row[1]) for row in connection.execute(query)}


def _by_cluster(found: Sequence[Any]) -> Mapping[str, float]:
    sums: defaultdict[str, int] = defaultdict(int)
    for virtual_cluster, gpu_ms in found:
        sums[virtual_cluster] += gpu_ms
    return {name: sums[name] / _HOUR_MS for name in sorted(sums)}


def unfinished(connection: sa.Connection, owner: str) -> Mapping[str, int]:
    """Return how many jobs of a user wait or run, by virtual cluster."""
    query = (
        sa.select(jobs.c.virtual_cluster, sa.func.count())
        .where(jobs.c.owner == owner, jobs.c.ended_at_ms.is_(None))
        .group_by(jobs.c.virtual_cluster)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def beyond(
    connection: sa.Connection, owner: str, quotas: Sequence[Quota], now_ms: int, more: int = 1
) -> BeyondQuota | None:
    """Return a quota that has no room for so many more jobs, None if all have."""
    counts = unfinished(connection, owner) if any(quota.jobs_unfinished is not None for quota in quotas) else {}
    is_timed = any(quota.gpu_hours_per_month is not None for quota in quotas)
    hours = gpu_hours(connection, owner, now_ms) if is_timed else {}
    for quota in quotas:
        jobs_now, hours_now = int(_of(quota, counts)), _of(quota, hours)
        if quota.jobs_unfinished is not None and jobs_now + more > quota.jobs_unfinished:
            return BeyondQuota(quota, jobs_now)
        if quota.gpu_hours_per_month is not None and hours_now >= quota.gpu_hours_per_month:
            return BeyondQuota(quota, gpu_hours=hours_now)
    return None


def _of(quota: Quota, by_cluster: Mapping[str, float]) -> float:
    return by_cluster.get(quota.virtual_cluster, 0) if quota.virtual_cluster else sum(by_cluster.values())
