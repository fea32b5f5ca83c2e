"""Lists in SQLite are ordered by how many attempts a job had, so its indexes hold that instead of what was retried."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NEWEST = ("submitted_at_ms", "id")
_LISTED = ("name", "virtual_cluster", "phase", "priority_class", "is_tagged", "gpus_total", "tasks_total", "attempt")
_WHOLE = (*_LISTED, "ended_at_ms")


def upgrade() -> None:
    """Bring the schema from 0005 to 0006."""
    if op.get_bind().dialect.name != "sqlite":
        return
    for name, where in (("listing", "archive_key = ''"), ("archived", "archive_key > ''")):
        op.drop_index(f"ix_jobs_{name}", "jobs")
        columns = [*_NEWEST, "owner", *_WHOLE, "archive_key"]
        op.create_index(f"ix_jobs_{name}", "jobs", columns, sqlite_where=sa.text(where))
    op.drop_index("ix_jobs_of_owner", "jobs")
    op.create_index("ix_jobs_of_owner", "jobs", ["owner", "archive_key", *_NEWEST, *_WHOLE])
