"""The tables of GPU hours: those used in each month, and those that may be used."""

from __future__ import annotations

import sqlalchemy as sa


def budget_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Add the tables to a schema; return the use of months, and budgets."""
    # The use of ended task attempts in each month (UTC), added up as they end, for the check at each submission.
    month_use = sa.Table(
        "month_use",
        metadata,
        sa.Column("owner", sa.String(255), primary_key=True),
        sa.Column("month_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("virtual_cluster", sa.String(255), primary_key=True),
        sa.Column("gpu_ms", sa.BigInteger, nullable=False),
        sa.Index("ix_month_use_vc", "virtual_cluster", "month_ms"),
    )
    budgets = sa.Table(
        "budgets",
        metadata,
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("period", sa.String(16), primary_key=True),
        sa.Column("gpu_hours", sa.Double, nullable=False),
        sa.Column("warn_at", sa.Text, nullable=False),
        sa.Column("stops", sa.String(16), nullable=False),
        sa.Column("notice_minutes", sa.Double, nullable=False),
        sa.Column("contact", sa.Text, nullable=False),
        # What the leader did about it in the period that began then.
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("warned", sa.Double, nullable=False),
        sa.Column("used_up_at_ms", sa.BigInteger),
    )
    return month_use, budgets
