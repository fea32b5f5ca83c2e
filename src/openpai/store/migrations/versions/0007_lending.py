"""GPU time without a guarantee, by day: what users borrowed, and what virtual clusters lent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Bring the schema from 0006 to 0007."""
    op.create_table(
        "lent_use",
        sa.Column("day", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("virtual_cluster", sa.String(255), nullable=False),
        sa.Column("borrowed_gpu_ms", sa.Double, nullable=False),
        sa.Column("lent_gpu_ms", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("day", "owner", "virtual_cluster", name="pk_lent_use"),
    )
