"""What quotas ask for at every submission: unfinished jobs by owner, and GPU hours of the month added up already."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_DAY_MS = 86_400_000
_FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
_OF_MONTH = sa.text(
    "SELECT owner, virtual_cluster, SUM(CAST(gpus AS BIGINT) *"
    " (CASE WHEN ended_at_ms < :until THEN ended_at_ms ELSE :until END"
    " - CASE WHEN granted_at_ms > :since THEN granted_at_ms ELSE :since END)) AS gpu_ms FROM task_attempts"
    " WHERE gpus > 0 AND ended_at_ms > :since AND granted_at_ms < :until AND ended_at_ms > granted_at_ms"
    " GROUP BY owner, virtual_cluster"
)


def upgrade() -> None:
    """Bring the schema from 0003 to 0004."""
    only = sa.text("ended_at_ms IS NULL")
    op.create_index(
        "ix_jobs_unfinished", "jobs", ["owner", "virtual_cluster"], sqlite_where=only, postgresql_where=only
    )
    month_use = op.create_table(
        "month_use",
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("month_ms", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("virtual_cluster", sa.String(255), nullable=False),
        sa.Column("gpu_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "month_ms", "virtual_cluster", name="pk_month_use"),
    )
    sums = _added_up(op.get_bind())
    names = ("owner", "month_ms", "virtual_cluster")
    op.bulk_insert(month_use, [{**dict(zip(names, key, strict=True)), "gpu_ms": sums[key]} for key in sorted(sums)])


def _added_up(connection: sa.Connection) -> dict[tuple[str, int, str], int]:
    """Return the GPU milliseconds by owner, month and virtual cluster of what ended, deleted jobs included."""
    sums: defaultdict[tuple[str, int, str], int] = defaultdict(int)
    bounds = sa.text("SELECT MIN(granted_at_ms), MAX(ended_at_ms) FROM task_attempts WHERE gpus > 0")
    first_ms, last_ms = connection.execute(bounds).one()
    since = _month(first_ms) if first_ms is not None and last_ms is not None else None
    while since is not None and since < last_ms:
        until = _month(since + 32 * _DAY_MS)
        for row in connection.execute(_OF_MONTH, {"since": since, "until": until}):
            sums[row.owner, since, row.virtual_cluster] += int(row.gpu_ms)
        since = until
    deleted = sa.text("SELECT day, owner, virtual_cluster, gpu_ms FROM past_use WHERE gpu_ms > 0")
    for row in connection.execute(deleted):
        sums[row.owner, _month(row.day * _DAY_MS), row.virtual_cluster] += round(row.gpu_ms)
    return sums


def _month(at_ms: int) -> int:
    first = (_FIRST_DAY + timedelta(milliseconds=at_ms)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first - _FIRST_DAY) // timedelta(milliseconds=1)
