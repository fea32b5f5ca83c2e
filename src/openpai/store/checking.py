"""Checks a database by reading it: damage, schema, secrets, and the files it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.lifecycle.model import AttemptKey
from openpai.store.database import Database
from openpai.store.db_errors import translate
from openpai.store.opening import require_known
from openpai.store.resealing import KEPT
from openpai.store.revisions import newest_schema, schema_of
from openpai.store.schema import jobs, lent_use, metadata, past_use, task_attempts
from openpai.store.vault import Vault

FAULTS_MAX: Final = 5
_ROWS_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Secrets:
    """The number of sealed values, and the names of those that no key opens."""

    total: int
    lost: tuple[str, ...]


class Checking:
    """Reads a database in one snapshot. Every method raises a PaiError when it cannot be read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def faults(self) -> list[str]:
        """Return some faults of a damaged database; for PostgreSQL, tables that cannot be read completely."""
        with _reading(self._database) as connection:
            if not self._database.is_sqlite:
                for name in sa.inspect(connection).get_table_names():
                    connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one()
                return []
            found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA integrity_check({FAULTS_MAX})")]
            strays = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(FAULTS_MAX)
        damage = [line for line in found if line != "ok"]
        return damage + [f"a row of {row[0]} refers to a missing row of {row[2]}" for row in strays]

    def version(self) -> str:
        """Return which database this is, with its version."""
        with _reading(self._database) as connection:
            found = connection.dialect.server_version_info or ()
        return f"{'SQLite' if self._database.is_sqlite else 'PostgreSQL'} {'.'.join(map(str, found))}"

    def schema(self) -> tuple[str, bool]:
        """Return the schema, and whether it is the newest. Raises Refused for one of a newer program."""
        with _reading(self._database) as connection:
            at = schema_of(connection) or ""
        if at:
            require_known(at)
        return at, at == newest_schema()

    def secrets(self, vault: Vault) -> Secrets:
        """Try the keys on every sealed value."""
        total, lost = 0, []
        for name, data in self._sealed():
            total += 1
            if not vault.opens(data):
                lost.append(name)
        return Secrets(total, tuple(lost))

    def running(self) -> list[AttemptKey]:
        """Return the task attempts of unfinished jobs that started and have not ended."""
        columns = task_attempts.c
        query = (
            sa.select(columns.job, columns.job_attempt, columns.role, columns.task_index, columns.attempt)
            .join(jobs, jobs.c.id == columns.job)
            .where(columns.ended_at_ms.is_(None), columns.started_at_ms.is_not(None), jobs.c.ended_at_ms.is_(None))
        )
        with _reading(self._database) as connection:
            rows = connection.execute(query).all()
        return [AttemptKey(*row) for row in rows]

    def books(self) -> dict[str, int]:
        """Return how many rows make the hours of users wrong, by what is wrong with them; nothing if none do."""
        attempts, is_granted = task_attempts.c, task_attempts.c.granted_at_ms.is_not(None)
        negative = [
            sa.or_(*(column < 0 for column in table.c if not column.primary_key)) for table in (past_use, lent_use)
        ]
        wrong = {
            "sums of deleted jobs are negative": sa.select(sa.func.count()).select_from(past_use).where(negative[0]),
            "sums of what was lent are negative": sa.select(sa.func.count()).select_from(lent_use).where(negative[1]),
            "task attempts of jobs that are over still count hours": sa.select(sa.func.count())
            .select_from(task_attempts.join(jobs, jobs.c.id == attempts.job))
            .where(is_granted, attempts.ended_at_ms.is_(None), jobs.c.ended_at_ms.is_not(None)),
            "task attempts belong to no job": sa.select(sa.func.count())
            .select_from(task_attempts.outerjoin(jobs, jobs.c.id == attempts.job))
            .where(jobs.c.id.is_(None)),
        }
        with _reading(self._database) as connection:
            found = {what: connection.execute(query).scalar_one() for what, query in wrong.items()}
        return {what: count for what, count in found.items() if count}

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        with _reading(self._database) as connection:
            return {
                table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for table in metadata.sorted_tables
            }

    def _sealed(self) -> Iterator[tuple[str, bytes]]:
        with _reading(self._database) as connection:
            for table, key in KEPT:
                query = sa.select(key, table.c.sealed).where(table.c.sealed.is_not(None))
                for name, data in connection.execute(query).yield_per(_ROWS_AT_ONCE):
                    yield name, bytes(data)


@contextmanager
def _reading(database: Database) -> Iterator[sa.Connection]:
    """Provide a connection that raises errors of our families."""
    try:
        with database.engine.connect() as connection:
            yield connection
    except exc.DBAPIError as error:
        raise translate(error) from error
