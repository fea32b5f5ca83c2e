"""Stores the settings of the cluster that administrators change, and notes about nodes, also of those that are away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.ports.cluster_settings import NodeNote, Setting
from openpai.protocol.errors import Refused
from openpai.store.database import Database, Stored
from openpai.store.locks import check_lease
from openpai.store.schema import node_notes, settings

_SIZE: Final = ("cpus", "memory_mb", "gpus", "gpu_model")
# Made once: the leader reads settings in each round of its passes.
_SETTINGS: Final = sa.select(settings).where(settings.c.name.in_(sa.bindparam("names", expanding=True)))
_NODE_NOTES: Final = sa.select(node_notes).order_by(node_notes.c.name)


class SqlSettingsStore(Stored):
    """`ports.cluster_settings.SettingsStore` over SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._notes: dict[tuple[Any, ...], NodeNote] = {}
        """The notes that were read last, by their rows."""

    async def setting(self, name: str) -> Setting | None:
        return (await self.settings(name)).get(name)

    async def settings(self, *names: str) -> Mapping[str, Setting]:
        # A few rows by their keys: a thread for each read of the leader's passes costs more than the read.
        rows = await self._database.read_inline(
            lambda connection: connection.execute(_SETTINGS, {"names": names}).mappings().all()
        )
        return {row["name"]: Setting(**{**row, "body": json.loads(row["body"])}) for row in rows}

    async def set_setting(
        self,
        name: str,
        body: Mapping[str, Any],
        *,
        by: str,
        at_ms: int,
        version: int | None = None,
        epoch: int | None = None,
    ) -> Setting:
        def work(connection: sa.Connection) -> Setting:
            _fence(connection, epoch)
            query = sa.select(settings.c.version).where(settings.c.name == name).with_for_update()
            known = connection.execute(query).scalar() or 0
            if version is not None and version != known:
                raise _changed(name, known)
            columns = {
                "body": json.dumps(dict(body)),
                "version": known + 1,
                "changed_at_ms": at_ms,
                "changed_by": by,
            }
            if known:
                connection.execute(sa.update(settings).where(settings.c.name == name).values(columns))
            else:
                try:
                    with connection.begin_nested():
                        connection.execute(settings.insert(), {"name": name, **columns})
                except exc.IntegrityError as error:
                    raise _changed(name, 1) from error
            return Setting(name, body, known + 1, at_ms, by)

        return await self._database.write(work)

    async def node_notes(self) -> tuple[NodeNote, ...]:
        known = self._notes

        def work(connection: sa.Connection) -> dict[tuple[Any, ...], NodeNote]:
            # The leader reads a thousand of them every ten seconds, and hardly one has changed. In the thread of the
            # reader, and as plain tuples: rows are compared by a function.
            return {(key := tuple(row)): known.get(key) or _note(row) for row in connection.execute(_NODE_NOTES)}

        self._notes = await self._database.read(work)
        return tuple(self._notes.values())

    async def learn_nodes(self, notes: tuple[NodeNote, ...], epoch: int | None) -> None:
        def work(connection: sa.Connection) -> None:
            _fence(connection, epoch)
            for row in map(_columns, notes):
                size = {name: row[name] for name in _SIZE}
                known = sa.update(node_notes).where(node_notes.c.name == row["name"]).values(size)
                if connection.execute(known).rowcount == 0:
                    connection.execute(node_notes.insert(), row)

        await self._database.write(work)

    async def set_node_notes(self, notes: tuple[NodeNote, ...], epoch: int | None) -> None:
        rows = [_columns(note) for note in notes]

        def work(connection: sa.Connection) -> None:
            _fence(connection, epoch)
            connection.execute(sa.delete(node_notes).where(node_notes.c.name.in_([row["name"] for row in rows])))
            if rows:
                connection.execute(node_notes.insert(), rows)

        await self._database.write(work)

    async def forget_nodes(self, names: tuple[str, ...], epoch: int | None) -> None:
        def work(connection: sa.Connection) -> None:
            _fence(connection, epoch)
            connection.execute(sa.delete(node_notes).where(node_notes.c.name.in_(names)))

        await self._database.write(work)


def _note(row: sa.Row[Any]) -> NodeNote:
    fields = row._mapping  # noqa: SLF001  # SQLAlchemy's own name for its public mapping
    return NodeNote(**{**fields, "bad_devices": frozenset(json.loads(fields["bad_devices"]))})


def _fence(connection: sa.Connection, epoch: int | None) -> None:
    if epoch is not None:
        check_lease(connection, epoch)


def _changed(name: str, version: int) -> Refused:
    message = f"the setting {name!r} was changed meanwhile and is at version {version} now"
    return Refused("ConflictSettingError", message, "read it again, and repeat your change on the current version")


def _columns(note: NodeNote) -> dict[str, Any]:
    columns = {column.name: getattr(note, column.name) for column in node_notes.columns}
    return columns | {"bad_devices": json.dumps(sorted(note.bad_devices))}
