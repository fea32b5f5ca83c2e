"""Statements whose text is made once.

SQLAlchemy looks each statement up and converts every value, again with each execution: for the few rows that the end of
a job changes, that takes longer than what the database does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from openpai.store.rows import Row

_NAMED: Final = sqlite.dialect(paramstyle="named")
"""Takes the rows as they are, and not in the order of the statement."""


class Prepared:
    """A statement that changes rows, and whose values need no conversion: numbers, texts, and yes or no."""

    def __init__(self, statement: Any) -> None:
        self.statement: Final = statement
        self._texts: dict[str, str] = {}
        """By the name of a dialect."""

    def execute(self, connection: sa.Connection, rows: Sequence[Row]) -> int:
        """Carry it out for each of these rows, which have the same columns; return how many were changed."""
        if not rows:
            return 0
        text = self._texts.get(connection.dialect.name) or self._text(connection, rows[0])
        return connection.exec_driver_sql(text, list(rows)).rowcount

    def _text(self, connection: sa.Connection, row: Row) -> str:
        dialect = _NAMED if connection.dialect.name == _NAMED.name else connection.dialect
        text = str(self.statement.compile(dialect=dialect, column_keys=list(row)))
        self._texts[connection.dialect.name] = text
        return text


@contextmanager
def undone_on_failure(connection: sa.Connection) -> Iterator[None]:
    """Undo what is done inside if it fails, and nothing else of the transaction."""
    connection.exec_driver_sql("SAVEPOINT inside")
    try:
        yield
    except BaseException:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT inside")
            connection.exec_driver_sql("RELEASE SAVEPOINT inside")
        raise
    connection.exec_driver_sql("RELEASE SAVEPOINT inside")
