"""Re-encryption: each stored secret is opened and sealed with the newest key, in batches.

It may be interrupted anywhere and repeated: secrets that are sealed with the newest key already are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.store.database import Database
from openpai.store.db_errors import translate
from openpai.store.schema import channels, job_details, lease, storages
from openpai.store.vault import Vault
from openpai.store.writer import run_alone

T = TypeVar("T")

ROWS_AT_ONCE: Final = 200
KEPT: Final = ((job_details, job_details.c.job), (storages, storages.c.name), (channels, channels.c.name))


@dataclass(frozen=True, slots=True)
class Resealed:
    """The result for the secrets of a database."""

    sealed: int
    """How many are sealed with the newest key now."""
    lost: tuple[str, ...]
    """Jobs (by id), storages and channels with secrets that no key opens."""


def count_sealed(database: Database) -> int:
    """Return how many secrets there are."""
    queries = [sa.select(sa.func.count()).where(table.c.sealed.is_not(None)) for table, _ in KEPT]
    return _read(database, lambda connection: sum(connection.execute(query).scalar_one() for query in queries))


def opens_newest(database: Database, vault: Vault) -> bool:
    """Return whether the vault opens any of the newest secrets; True when there are none."""
    queries = [sa.select(table.c.sealed).order_by(key.desc()).limit(ROWS_AT_ONCE) for table, key in KEPT]
    found = _read(database, lambda connection: [each for query in queries for each in connection.scalars(query)])
    sealed = [bytes(each) for each in found if each is not None]
    return not sealed or any(vault.resealed(each) is not None for each in sealed)


def leader(database: Database) -> tuple[str, int] | None:
    """Return the server that holds the lease of the database, and a number that changes with each renewal.

    Watch the number to find out whether that server still runs: it is a time of its clock, which may be wrong.
    """
    query = sa.select(lease.c.holder, lease.c.until_ms).where(lease.c.holder.is_not(None))
    found = _read(database, lambda connection: connection.execute(query).first())
    return None if found is None else (str(found[0]), int(found[1]))


def reseal(database: Database, vault: Vault, progress: Callable[[int], None]) -> Resealed:
    """Seal every secret with the vault's first key. `progress` is called with the size of each batch."""
    if database.is_sqlite:
        # Old secrets must be erased from the file as well, not only from the table.
        sa.event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA secure_delete=ON"))
        database.engine.dispose()
    sealed, lost = 0, []
    for table, key in KEPT:
        for names, unopened in _batches(database, vault, table, key):
            sealed += len(names) - len(unopened)
            lost += unopened
            progress(len(names))
    return Resealed(sealed, tuple(lost))


def _batches(
    database: Database, vault: Vault, table: sa.Table, key: sa.Column[str]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the names in each batch and those of them whose secrets no key opens, once it is committed."""
    last = ""
    while True:

        def work(connection: sa.Connection, after: str = last) -> tuple[list[str], list[str]]:
            query = sa.select(key, table.c.sealed).where(key > after, table.c.sealed.is_not(None))
            rows = connection.execute(query.order_by(key).limit(ROWS_AT_ONCE).with_for_update()).all()
            lost = []
            for name, data in rows:
                new = vault.resealed(bytes(data))
                if new is None:
                    lost.append(name)
                elif new != bytes(data):
                    connection.execute(sa.update(table).where(key == name).values(sealed=new))
            return [row[0] for row in rows], lost

        names, lost = _write(database, work)
        if not names:
            return
        yield names, lost
        last = names[-1]


def _read(database: Database, work: Callable[[sa.Connection], T]) -> T:
    try:
        with database.engine.connect() as connection:
            return work(connection)
    except exc.DBAPIError as error:
        raise translate(error) from error


def _write(database: Database, work: Callable[[sa.Connection], T]) -> T:
    try:
        return run_alone(database.engine, work, "", database.check_files)
    except exc.DBAPIError as error:
        raise translate(error) from error
