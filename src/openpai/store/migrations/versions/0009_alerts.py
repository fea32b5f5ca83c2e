"""Alerts of rules, their actions, the channels of messages, and the messages that wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MS = sa.BigInteger()


def upgrade() -> None:
    """Bring the schema from 0008 to 0009."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since_ms", _MS, nullable=False),
        sa.Column("resolved_at_ms", _MS),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index("ix_alerts_state", "alerts", ["state", "since_ms"])
    op.create_table(
        "alert_actions",
        sa.Column("key", sa.String(128), nullable=False),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("action", sa.String(128), nullable=False),
        sa.Column("target", sa.String(512), nullable=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("alert", sa.String(64), nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_alert_actions"),
    )
    op.create_index("ix_alert_actions_at", "alert_actions", ["at_ms"])
    op.create_table(
        "notices",
        sa.Column("id", _BIG_ID, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("channel", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at_ms", _MS, nullable=False),
        sa.Column("next_at_ms", _MS, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sa.UniqueConstraint("key", name="uq_notices_key"),
    )
    op.create_index("ix_notices_state", "notices", ["state", "next_at_ms"])
    op.create_table(
        "channels",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.Column("changed_at_ms", _MS, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_channels"),
    )
