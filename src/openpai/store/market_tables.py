"""The tables of the marketplace: items, their revisions, their labels and shares, stars, and uses."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

_MS: Final = sa.BigInteger()


def market_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table, sa.Table, sa.Table, sa.Table]:
    """Add the tables to a schema; return items, revisions, marks, stars and uses."""
    items = sa.Table(
        "market_items",
        metadata,
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("made_at_ms", _MS, nullable=False),
        sa.Column("title", sa.String(255), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        # Name, title, summary, author and tags in small letters.
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
        sa.UniqueConstraint("name"),
        sa.Index("ix_market_items_stars", "stars", "name"),
        sa.Index("ix_market_items_uses", "uses", "name"),
        sa.Index("ix_market_items_changed", "changed_at_ms", "name"),
        sa.Index("ix_market_items_author", "author"),
    )
    # The whole content of each revision, which lists do not need.
    revisions = sa.Table(
        "market_revisions",
        metadata,
        sa.Column("item", sa.String(32), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    # Categories and tags, and the groups and virtual clusters that an item is shared with.
    marks = sa.Table(
        "market_marks",
        metadata,
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("item", sa.String(32), primary_key=True),
        sa.Index("ix_market_marks_item", "item"),
    )
    stars = sa.Table(
        "market_stars",
        metadata,
        sa.Column("item", sa.String(32), primary_key=True),
        sa.Column("owner", sa.String(255), primary_key=True),
        sa.Column("at_ms", _MS, nullable=False),
    )
    uses = sa.Table(
        "market_uses",
        metadata,
        sa.Column("job", sa.String(32), primary_key=True),
        sa.Column("item", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("at_ms", _MS, nullable=False),
        sa.Index("ix_market_uses_item", "item", "owner"),
    )
    return items, revisions, marks, stars, uses
