"""Budgets in GPU hours, and an index to add up the use of a virtual cluster."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0014"


def upgrade() -> None:
    """Bring the schema to 0012."""
    op.create_table(
        "budgets",
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("period", sa.String(16), nullable=False),
        sa.Column("gpu_hours", sa.Double, nullable=False),
        sa.Column("warn_at", sa.Text, nullable=False),
        sa.Column("stops", sa.String(16), nullable=False),
        sa.Column("notice_minutes", sa.Double, nullable=False),
        sa.Column("contact", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("warned", sa.Double, nullable=False),
        sa.Column("used_up_at_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint("kind", "name", "period", name="pk_budgets"),
    )
    op.create_index("ix_month_use_vc", "month_use", ["virtual_cluster", "month_ms"])
