"""GPU time that was wasted, by day: held without use, and work that was lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"


def upgrade() -> None:
    """Bring the schema to 0011."""
    # With defaults, so that a server of the version before can still write during an upgrade.
    for name in ("idle_gpu_ms", "failed_gpu_ms", "preempted_gpu_ms"):
        op.add_column("lent_use", sa.Column(name, sa.Double, nullable=False, server_default="0"))
