"""Copies a whole database from PostgreSQL into a SQLite file, and from a SQLite file into an empty PostgreSQL.

It needs no tools of PostgreSQL, so it also works in the image of a server, and it is the way from a single server to
several. Rows keep their values; both databases get the schema of this program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.protocol.errors import BadConfiguration
from openpai.store.database import Database
from openpai.store.db_errors import translate
from openpai.store.opening import migrate, require_newest
from openpai.store.revisions import newest_schema
from openpai.store.schema import metadata

ROWS_AT_ONCE: Final = 1_000
Progress = Callable[[int, int], None]


def copy_postgres(url: str, target: Path, progress: Progress) -> str:
    """Copy one snapshot of a PostgreSQL database into a new SQLite file; return its schema.

    `progress` is called with the numbers of copied rows and of all rows.
    """
    with _opened(url) as source, _opened(f"sqlite:///{target}") as made:
        require_newest(source)
        migrate(made)
        # One snapshot of all tables, whatever a server writes meanwhile.
        snapshot = source.engine.execution_options(isolation_level="REPEATABLE READ")
        with snapshot.connect() as reading, _writing(made) as writing:
            _copy_rows(reading, writing, progress)
        with made.engine.connect() as connection:
            # One file without a journal beside it.
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    return newest_schema()


def fill_postgres(url: str, source: Path, progress: Progress, *, aside: str = "") -> None:
    """Fill an empty PostgreSQL database from a SQLite file, completely or not at all.

    Tables that are there are moved into the schema `aside`, if it is given, and otherwise refused.
    """
    with _opened(f"sqlite:///{source}") as read, _opened(url) as made:
        migrate(read)
        _make_room(made, aside)
        migrate(made)
        try:
            with read.engine.connect() as reading, _writing(made) as writing:
                _copy_rows(reading, writing, progress)
                _continue_numbers(writing)
        except BaseException:
            # The tables are empty; without them the next attempt finds an empty database.
            with _writing(made) as writing:
                metadata.drop_all(writing)
                writing.exec_driver_sql("DROP TABLE alembic_version")
            raise


def _make_room(database: Database, aside: str) -> None:
    with _writing(database) as connection:
        found = sa.inspect(connection).get_table_names()
        if not found:
            return
        if not aside:
            advice = "create one with: createdb --encoding UTF8 --template template0 NAME"
            raise BadConfiguration(f"the database holds {len(found)} tables already", advice)
        quoted = connection.dialect.identifier_preparer.quote
        connection.exec_driver_sql(f"CREATE SCHEMA {quoted(aside)}")
        for name in found:
            connection.exec_driver_sql(f"ALTER TABLE {quoted(name)} SET SCHEMA {quoted(aside)}")


def _copy_rows(reading: sa.Connection, writing: sa.Connection, progress: Progress) -> None:
    tables = metadata.sorted_tables
    counts = {table: reading.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables}
    done, total = 0, sum(counts.values())
    for table in tables:
        # A migration may have put rows there.
        writing.execute(table.delete())
        rows = reading.execution_options(yield_per=ROWS_AT_ONCE).execute(sa.select(table)).mappings()
        for part in rows.partitions():
            writing.execute(table.insert(), [dict(row) for row in part])
            done += len(part)
            progress(done, total)


def _continue_numbers(connection: sa.Connection) -> None:
    """Let the numbers that PostgreSQL gives to rows begin after the copied ones."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is None:
            continue
        names = {"table": table.name, "column": column.name}
        sequence = connection.execute(sa.text("SELECT pg_get_serial_sequence(:table, :column)"), names).scalar()
        newest = connection.execute(sa.select(sa.func.max(column))).scalar()
        if sequence and newest:
            connection.execute(sa.text("SELECT setval(:sequence, :newest)"), {"sequence": sequence, "newest": newest})


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = Database(url, inline=True)
    try:
        yield database
    except exc.DBAPIError as error:
        raise translate(error) from error
    finally:
        database.close()


@contextmanager
def _writing(database: Database) -> Iterator[sa.Connection]:
    options: dict[str, Any] = {"writes": True}
    with database.engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection
