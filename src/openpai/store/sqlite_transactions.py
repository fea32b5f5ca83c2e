"""How transactions of a SQLite database begin.

The driver's own begin late and break savepoints, so BEGIN is sent here. SQLAlchemy's events could do that, too; but an
engine that has one asks at every statement for all others, which is a third of what reading a row costs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine.characteristics import ConnectionCharacteristic

from openpai.store.writer import AT_ONCE

BUSY_TIMEOUT_S: Final = 10.0


class Connection(sqlite3.Connection):
    """A connection of the driver that knows how its next transaction begins."""

    writes: bool | str = False
    patience_s: float | None = None

    def begin(self) -> None:
        """Begin a transaction. One that begins with a read may be refused its first write."""
        # The event loop must not block while another process writes.
        patience_s = 0 if self.writes == AT_ONCE else BUSY_TIMEOUT_S
        # Most transactions want the same as the one before.
        if self.patience_s != patience_s:
            self.execute(f"PRAGMA busy_timeout = {int(patience_s * 1000)}")
            self.patience_s = patience_s
        self.execute("BEGIN IMMEDIATE" if self.writes else "BEGIN")


class _Writes(ConnectionCharacteristic):
    """The execution option `writes` of a connection, which its pool takes back with it."""

    transactional = True

    def set_characteristic(self, dialect: Any, dbapi_conn: Any, value: bool | str) -> None:
        dbapi_conn.writes = value

    def reset_characteristic(self, dialect: Any, dbapi_conn: Any) -> None:
        dbapi_conn.writes = False

    def get_characteristic(self, dialect: Any, dbapi_conn: Any) -> bool | str:
        writes: bool | str = dbapi_conn.writes
        return writes


def create_engine(url: sa.URL, check: Callable[[], None], **options: Any) -> sa.Engine:
    """Return an engine; each of its connections is opened after a check, which may raise Unavailable."""

    def opened(*arguments: Any, **named: Any) -> Connection:
        check()
        return Connection(*arguments, **named)

    named = {"check_same_thread": False, "timeout": BUSY_TIMEOUT_S, "factory": opened}
    engine = sa.create_engine(url, connect_args=named, **options)
    dialect: Any = engine.dialect
    dialect.connection_characteristics = dialect.connection_characteristics.union({"writes": _Writes()})
    dialect.do_begin = lambda connection: connection.dbapi_connection.begin()
    return engine
