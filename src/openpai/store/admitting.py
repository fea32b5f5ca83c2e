"""Whether quotas leave room for one more job of somebody, asked in the transaction that adds it.

SQLite has one writer at a time, whichever server it belongs to. Servers over PostgreSQL wait for each other by owner:
the writer takes the lock named here before it begins, so that nobody counts while somebody else adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from openpai.ports.usage import BeyondQuota, Quota
from openpai.store.months import gpu_hours
from openpai.store.schema import jobs


def unfinished(connection: sa.Connection, owner: str) -> Mapping[str, int]:
    """Return how many jobs of somebody wait or run, by virtual cluster."""
    query = (
        sa.select(jobs.c.virtual_cluster, sa.func.count())
        .where(jobs.c.owner == owner, jobs.c.ended_at_ms.is_(None))
        .group_by(jobs.c.virtual_cluster)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def beyond(connection: sa.Connection, owner: str, quotas: Sequence[Quota], now_ms: int) -> BeyondQuota | None:
    """Return which of these quotas leaves no room for one more job, None when all do."""
    counts = unfinished(connection, owner) if any(quota.jobs_unfinished is not None for quota in quotas) else {}
    is_timed = any(quota.gpu_hours_per_month is not None for quota in quotas)
    hours = gpu_hours(connection, owner, now_ms) if is_timed else {}
    for quota in quotas:
        jobs_now, hours_now = int(_of(quota, counts)), _of(quota, hours)
        if quota.jobs_unfinished is not None and jobs_now >= quota.jobs_unfinished:
            return BeyondQuota(quota, jobs_now)
        if quota.gpu_hours_per_month is not None and hours_now >= quota.gpu_hours_per_month:
            return BeyondQuota(quota, gpu_hours=hours_now)
    return None


def _of(quota: Quota, by_cluster: Mapping[str, float]) -> float:
    return by_cluster.get(quota.virtual_cluster, 0) if quota.virtual_cluster else sum(by_cluster.values())


def lock_of(owner: str, quotas: Sequence[Quota]) -> str:
    """Return what the writer must hold while it checks these quotas; nothing when none of them counts jobs."""
    return f"unfinished jobs of {owner}" if any(quota.jobs_unfinished is not None for quota in quotas) else ""
