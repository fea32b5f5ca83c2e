"""What the store promises of storages, asked of SQLite and of PostgreSQL alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import psycopg
import pytest

from openpai.access.accounts import Group
from openpai.ports.storages import Storage
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused
from openpai.store.accounts import SqlAccountStore
from openpai.store.database import Database
from openpai.store.storages import SqlStorageStore

DATA = Storage("data", "nfs", {"server": "nas", "path": "/x"}, Sealed(b"\x00sealed\xff"), True, False, "ours", 7)


@pytest.fixture
def store(database: Database) -> SqlStorageStore:
    return SqlStorageStore(database)


async def test_a_storage_comes_back_as_it_was(store: SqlStorageStore) -> None:
    await store.add_storage(DATA)
    await store.add_storage(Storage("bare", "local", {"path": "/y"}))
    assert await store.storage("data") == DATA
    assert [storage.name for storage in await store.storages()] == ["bare", "data"]
    assert await store.storage("none") is None
    assert "sealed" not in repr(DATA)


async def test_a_name_is_given_once_and_may_be_changed(store: SqlStorageStore) -> None:
    await store.add_storage(DATA)
    with pytest.raises(Refused) as taken:
        await store.add_storage(DATA)
    assert taken.value.code == "ConflictStorageError"
    changed = replace(DATA, kind="local", data={"path": "/z"}, sealed=None, is_read_only=False)
    await store.change_storage(changed)
    assert await store.storage("data") == changed
    with pytest.raises(Refused) as missing:
        await store.change_storage(replace(DATA, name="none"))
    assert missing.value.code == "NoStorageError"


async def test_grants_keep_their_order_and_end_with_the_storage(store: SqlStorageStore, database: Database) -> None:
    accounts = SqlAccountStore(database)
    await accounts.add_group(Group("vision"))
    await accounts.add_group(Group("speech"))

    async def granted(group: str) -> tuple[str, ...]:
        found = await accounts.group(group)
        assert found is not None
        return found.storages

    for name in ("a", "b", "c"):
        await store.add_storage(replace(DATA, name=name))
        await store.grant_storage(name, "vision")
    await store.grant_storage("b", "speech")
    await store.grant_storage("a", "vision")
    assert await granted("vision") == ("a", "b", "c")
    await store.grant_storage("c", "vision", is_default=True)
    assert await granted("vision") == ("c", "a", "b")
    assert await store.groups_of_storage("b") == ("speech", "vision")
    await store.revoke_storage("a", "vision")
    await store.revoke_storage("a", "vision")
    await store.remove_storage("b")
    assert (await granted("vision"), await granted("speech")) == (("c",), ())


@pytest.mark.parametrize(
    ("name", "group", "code"), [("none", "vision", "NoStorageError"), ("data", "none", "NoGroupError")]
)
async def test_grants_need_both_ends(
    store: SqlStorageStore, database: Database, name: str, group: str, code: str
) -> None:
    await store.add_storage(DATA)
    await SqlAccountStore(database).add_group(Group("vision"))
    with pytest.raises(Refused) as message:
        await store.grant_storage(name, group)
    assert message.value.code == code


async def test_a_storage_that_is_being_removed_cannot_be_granted(
    store: SqlStorageStore, database: Database, database_url: str
) -> None:
    if not database_url.startswith("postgresql"):
        pytest.skip("SQLite lets one server write at a time")
    accounts = SqlAccountStore(database)
    await accounts.add_group(Group("vision"))
    await store.add_storage(DATA)
    with psycopg.connect(database_url) as other, psycopg.connect(database_url, autocommit=True) as watch:
        other.execute("DELETE FROM storages")
        granting = asyncio.create_task(store.grant_storage("data", "vision"))
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
        while not granting.done() and not watch.execute(waits).fetchone():  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0.01)
        other.commit()
    with pytest.raises(Refused, match="there is no storage named 'data'"):
        await granting
    found = await accounts.group("vision")
    assert found is not None
    assert found.storages == ()


async def test_what_is_not_there_cannot_be_removed(store: SqlStorageStore) -> None:
    with pytest.raises(Refused) as message:
        await store.remove_storage("none")
    assert message.value.code == "NoStorageError"
