"""Databases of the newest schema, for the many tests that are not about how one comes to be.

The migrations run once in a process; everybody else gets a copy of what they made.
"""

from __future__ import annotations

import sqlite3
from functools import cache

from openpai.store.database import Database
from openpai.store.opening import migrate


def fill(database: Database) -> None:
    """Bring an empty SQLite database to the newest schema."""
    target = database.engine.raw_connection()
    try:
        assert isinstance(target.driver_connection, sqlite3.Connection)
        _made().backup(target.driver_connection)
    finally:
        target.close()


@cache
def _made() -> sqlite3.Connection:
    database = Database("sqlite://", inline=True)
    migrate(database)
    # The first call may come from a thread.
    made = sqlite3.connect(":memory:", check_same_thread=False)
    source = database.engine.raw_connection()
    assert isinstance(source.driver_connection, sqlite3.Connection)
    source.driver_connection.backup(made)
    source.close()
    database.close()
    return made
