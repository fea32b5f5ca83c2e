"""Deletes old rows in small steps, each a transaction of its own, so that other writes run in between."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from openpai.store.database import Database

ROWS_AT_ONCE: Final = 500


async def forget_older(database: Database, table: sa.Table, before_ms: int) -> int:
    """Delete the rows of a table that was written in the order of time; return how many."""
    # The oldest by number: the times of such a table have no index.
    oldest = sa.select(table.c.id, table.c.at_ms).order_by(table.c.id).limit(ROWS_AT_ONCE).subquery()
    chosen = sa.select(oldest.c.id).where(oldest.c.at_ms < before_ms)
    return await _repeat(database, sa.delete(table).where(table.c.id.in_(chosen)))


async def forget_where(database: Database, key: sa.Column[Any], condition: sa.ColumnElement[bool]) -> int:
    """Delete the rows of the key's table that satisfy a condition; return how many."""
    chosen = sa.select(key).where(condition).limit(ROWS_AT_ONCE)
    # The condition again: the key may be a part of a primary key only.
    return await _repeat(database, sa.delete(key.table).where(key.in_(chosen), condition))


async def _repeat(database: Database, step: sa.Delete) -> int:
    forgotten = 0
    while True:
        gone = await database.write(lambda connection: connection.execute(step).rowcount)
        forgotten += gone
        if gone < ROWS_AT_ONCE:
            return forgotten
