"""The tables of alerts: their states, their actions, the channels of messages, and the messages that wait."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

_BIG_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MS: Final = sa.BigInteger()


def alert_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table, sa.Table, sa.Table]:
    """Add the tables to a schema; return alerts, actions, messages and channels."""
    # Alerts of rules: those that are pending or fire, and those that are over.
    alerts = sa.Table(
        "alerts",
        metadata,
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since_ms", _MS, nullable=False),
        sa.Column("resolved_at_ms", _MS),
        sa.Column("body", sa.Text, nullable=False),
        sa.Index("ix_alerts_state", "state", "since_ms"),
    )

    # Recorded before they are carried out, so that each happens once.
    alert_actions = sa.Table(
        "alert_actions",
        metadata,
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("action", sa.String(128), nullable=False),
        sa.Column("target", sa.String(512), nullable=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("alert", sa.String(64), nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Index("ix_alert_actions_at", "at_ms"),
    )

    # Messages that wait, and for some days those that were sent, so that none is sent twice.
    notices = sa.Table(
        "notices",
        metadata,
        sa.Column("id", _BIG_ID, primary_key=True, autoincrement=True),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("channel", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at_ms", _MS, nullable=False),
        sa.Column("next_at_ms", _MS, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.UniqueConstraint("key"),
        sa.Index("ix_notices_state", "state", "next_at_ms"),
    )

    channels = sa.Table(
        "channels",
        metadata,
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.Column("changed_at_ms", _MS, nullable=False),
    )
    return alerts, alert_actions, notices, channels
