"""Stores storages and their grants: a grant is a name in a group's list of storages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.access.memberships import no_group
from openpai.ports.storages import Storage
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused
from openpai.store.database import Stored
from openpai.store.schema import groups, storages

# Made once: the leader asks in each round over the nodes.
_ALL: Final = sa.select(storages).order_by(storages.c.name)


class SqlStorageStore(Stored):
    """`ports.storages.StorageStore` over SQLite or PostgreSQL."""

    async def storages(self) -> tuple[Storage, ...]:
        found = await self._database.read(lambda connection: connection.execute(_ALL).mappings().all())
        return tuple(_storage(row) for row in found)

    async def storage(self, name: str) -> Storage | None:
        query = sa.select(storages).where(storages.c.name == name)
        row = await self._database.read(lambda connection: connection.execute(query).mappings().first())
        return _storage(row) if row else None

    async def add_storage(self, storage: Storage) -> None:
        def work(connection: sa.Connection) -> None:
            try:
                with connection.begin_nested():
                    connection.execute(storages.insert(), _columns(storage))
            except exc.IntegrityError as error:
                message = f"there is already a storage named {storage.name!r}"
                raise Refused(
                    "ConflictStorageError", message, "choose another name, or change the existing one"
                ) from error

        await self._database.write(work)

    async def change_storage(self, storage: Storage) -> None:
        changed = sa.update(storages).where(storages.c.name == storage.name).values(_columns(storage))

        def work(connection: sa.Connection) -> None:
            if connection.execute(changed).rowcount == 0:
                raise no_storage(storage.name)

        await self._database.write(work)

    async def remove_storage(self, name: str) -> None:
        def work(connection: sa.Connection) -> None:
            if connection.execute(sa.delete(storages).where(storages.c.name == name)).rowcount == 0:
                raise no_storage(name)
            for row in connection.execute(sa.select(groups.c.name, groups.c.storages).with_for_update()).all():
                if name in (granted := json.loads(row.storages)):
                    _set(connection, row.name, [other for other in granted if other != name])

        await self._database.write(work)

    async def grant_storage(self, name: str, group: str, *, is_default: bool = False) -> None:
        def granted(before: list[str]) -> list[str]:
            others = [other for other in before if other != name]
            if is_default:
                return [name, *others]
            return before if name in before else [*before, name]

        def work(connection: sa.Connection) -> None:
            # Locked until the grant is stored, so that a concurrent removal of the storage finds the grant.
            held = sa.select(storages.c.name).where(storages.c.name == name).with_for_update(read=True)
            if connection.execute(held).first() is None:
                raise no_storage(name)
            _change(connection, group, granted)

        await self._database.write(work)

    async def revoke_storage(self, name: str, group: str) -> None:
        def left(before: list[str]) -> list[str]:
            return [other for other in before if other != name]

        await self._database.write(lambda connection: _change(connection, group, left))

    async def groups_of_storage(self, name: str) -> tuple[str, ...]:
        query = sa.select(groups.c.name, groups.c.storages).order_by(groups.c.name)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return tuple(row.name for row in found if name in json.loads(row.storages))


def no_storage(name: str) -> Refused:
    """Return the error for a storage that does not exist."""
    message = f"there is no storage named {name!r}"
    return Refused("NoStorageError", message, "`pai storage list` shows the storages you may use")


def _change(connection: sa.Connection, group: str, change: Callable[[list[str]], list[str]]) -> None:
    query = sa.select(groups.c.storages).where(groups.c.name == group).with_for_update()
    before = connection.execute(query).scalar()
    if before is None:
        raise no_group(group)
    _set(connection, group, change(json.loads(before)))


def _set(connection: sa.Connection, group: str, granted: list[str]) -> None:
    connection.execute(sa.update(groups).where(groups.c.name == group).values(storages=json.dumps(granted)))


def _columns(storage: Storage) -> dict[str, Any]:
    columns = {column.name: getattr(storage, column.name) for column in storages.columns}
    sealed = storage.sealed.data if storage.sealed else None
    return columns | {"data": json.dumps(dict(storage.data)), "sealed": sealed}


def _storage(row: Any) -> Storage:
    sealed = Sealed(row["sealed"]) if row["sealed"] is not None else None
    return Storage(**{**row, "data": json.loads(row["data"]), "sealed": sealed})
