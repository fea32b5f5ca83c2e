"""Whether somebody may have one more unfinished job, asked in the transaction that adds it.

SQLite has one writer at a time, whichever server it belongs to. Servers over PostgreSQL wait for each other by owner:
the writer takes the lock named here before it begins, so that nobody counts while somebody else adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from openpai.ports.usage import BeyondQuota, Quota
from openpai.store.schema import jobs


def unfinished(connection: sa.Connection, owner: str) -> Mapping[str, int]:
    """Return how many jobs of somebody wait or run, by virtual cluster."""
    query = (
        sa.select(jobs.c.virtual_cluster, sa.func.count())
        .where(jobs.c.owner == owner, jobs.c.ended_at_ms.is_(None))
        .group_by(jobs.c.virtual_cluster)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def check_room(connection: sa.Connection, owner: str, quotas: Sequence[Quota]) -> None:
    """Raise BeyondQuota when somebody has as many unfinished jobs as one of these quotas allows."""
    if not quotas:
        return
    counts = unfinished(connection, owner)
    for quota in quotas:
        count = counts.get(quota.virtual_cluster, 0) if quota.virtual_cluster else sum(counts.values())
        if quota.jobs_unfinished is not None and count >= quota.jobs_unfinished:
            raise BeyondQuota(quota, count)


def lock_of(owner: str, quotas: Sequence[Quota]) -> str:
    """Return what the writer must hold while it checks these quotas; nothing when there are none."""
    return f"unfinished jobs of {owner}" if quotas else ""
