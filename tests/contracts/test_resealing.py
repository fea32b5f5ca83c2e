"""Sealing all secrets with a new key, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from openpai.ports.storages import Storage
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused
from openpai.store.database import Database
from openpai.store.resealing import ROWS_AT_ONCE, count_sealed, leader, reseal
from openpai.store.schema import lease, storages
from openpai.store.storages import SqlStorageStore
from openpai.store.vault import Vault, new_key

MANY = ROWS_AT_ONCE + 7


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, inline=True)
    yield opened
    opened.close()


async def test_everything_is_sealed_with_the_first_key_batch_by_batch(database: Database) -> None:
    old, new = new_key(), new_key()
    store, before = SqlStorageStore(database), Vault(old)
    for number in range(MANY):
        sealed = before.seal({"password": f"s3cret-{number}"})
        await store.add_storage(Storage(f"storage-{number:04}", "smb", {"server": "nas"}, sealed))
    await store.add_storage(Storage("open", "local", {"path": "/data"}))
    await store.add_storage(Storage("strange", "smb", {}, Vault(new_key()).seal({"password": "x"})))
    assert count_sealed(database) == MANY + 1

    heard: list[int] = []
    done = reseal(database, Vault(f"{new},{old}"), heard.append)
    assert (done.sealed, done.lost) == (MANY, ("strange",))
    assert heard == [ROWS_AT_ONCE, MANY + 1 - ROWS_AT_ONCE]
    for each in await store.storages():
        if each.sealed is not None and each.name != "strange":
            number = int(each.name.rpartition("-")[2])
            assert Vault(new).open(each.sealed) == {"password": f"s3cret-{number}"}
            with pytest.raises(Refused):
                before.open(each.sealed)

    sealed_then = {each.name: each.sealed for each in await store.storages()}
    assert reseal(database, Vault(f"{new},{old}"), heard.append) == done
    assert {each.name: each.sealed for each in await store.storages()} == sealed_then


def test_a_leader_is_known_until_it_lets_go_whatever_a_clock_says(database: Database) -> None:
    assert leader(database) is None
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(lease.insert(), {"name": "leader", "holder": "there:/d/1-a", "epoch": 1, "until_ms": 2000})
    assert leader(database) == ("there:/d/1-a", 2000)
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(lease.update().values(holder=None, until_ms=0))
    assert leader(database) is None


def test_a_change_that_is_undone_leaves_what_was_sealed(database: Database) -> None:
    old, new = new_key(), new_key()
    sealed = Vault(old).seal({"password": "s3cret"})
    assert sealed is not None
    row = {"kind": "smb", "data": "{}", "is_read_only": False, "is_shared": True, "description": "", "created_at_ms": 0}
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(storages.insert(), {**row, "name": "data", "sealed": sealed.data})

    def cut_off(connection: sa.Connection) -> None:
        raise KeyboardInterrupt

    sa.event.listen(database.engine, "commit", cut_off)
    with pytest.raises(KeyboardInterrupt):
        reseal(database, Vault(f"{new},{old}"), lambda _: None)
    sa.event.remove(database.engine, "commit", cut_off)
    with database.engine.connect() as connection:
        kept = connection.execute(sa.select(storages.c.sealed)).scalar_one()
    assert Vault(old).open(Sealed(bytes(kept))) == {"password": "s3cret"}
