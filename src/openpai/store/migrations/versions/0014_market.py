"""The marketplace: items, their revisions, their labels and shares, stars, and uses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0011"

_MS = sa.BigInteger()


def upgrade() -> None:
    """Bring the schema from 0011 to 0014."""
    op.create_table(
        "market_items",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("made_at_ms", _MS, nullable=False),
        sa.Column("title", sa.String(255), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("search", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("visibility", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("newest", sa.Integer, nullable=False),
        sa.Column("is_official", sa.Boolean, nullable=False),
        sa.Column("changed_at_ms", _MS, nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.Column("stars", sa.Integer, nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("users", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_market_items"),
        sa.UniqueConstraint("name", name="uq_market_items_name"),
    )
    op.create_index("ix_market_items_stars", "market_items", ["stars", "name"])
    op.create_index("ix_market_items_uses", "market_items", ["uses", "name"])
    op.create_index("ix_market_items_changed", "market_items", ["changed_at_ms", "name"])
    op.create_index("ix_market_items_author", "market_items", ["author"])
    op.create_table(
        "market_revisions",
        sa.Column("item", sa.String(32), nullable=False),
        sa.Column("revision", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("item", "revision", name="pk_market_revisions"),
    )
    op.create_table(
        "market_marks",
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("item", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", "item", name="pk_market_marks"),
    )
    op.create_index("ix_market_marks_item", "market_marks", ["item"])
    op.create_table(
        "market_stars",
        sa.Column("item", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.PrimaryKeyConstraint("item", "owner", name="pk_market_stars"),
    )
    op.create_table(
        "market_uses",
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("item", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_market_uses"),
    )
    op.create_index("ix_market_uses_item", "market_uses", ["item", "owner"])
