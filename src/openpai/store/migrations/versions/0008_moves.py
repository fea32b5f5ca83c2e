"""Jobs that were moved to make whole cells for others, by day: how many, and how much of their work is done again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Bring the schema from 0007 to 0008."""
    # With defaults, so that a server of the version before can still write during an upgrade.
    op.add_column("lent_use", sa.Column("jobs_moved", sa.Integer, nullable=False, server_default="0"))
    op.add_column("lent_use", sa.Column("moved_gpu_ms", sa.Double, nullable=False, server_default="0"))
