"""Manages storages: checks, seals and stores definitions, and opens connections on first use."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpai.ports.clock import Clock
from openpai.ports.identity import Sealer
from openpai.ports.storages import Step, Storage, StorageStore
from openpai.ports.store import Sealed
from openpai.protocol.errors import BadConfiguration, InvalidParameters, PaiError, Refused
from openpai.storage.area import DrivenArea, folder_of
from openpai.storage.checking import try_area, try_connection, try_unmounted
from openpai.storage.connections import Opened, Workers, connect
from openpai.storage.errors import ErrorTranslator

if TYPE_CHECKING:
    from openpai.storage.kinds import Draft


class StorageService:
    """`ports.storages.Storages` over a store. No storage may show the directories in `keep_out`."""

    def __init__(self, store: StorageStore, secrets: Sealer, clock: Clock, *, keep_out: Sequence[Path] = ()) -> None:
        self._store = store
        self._secrets = secrets
        self._clock = clock
        self._keep_out = tuple(path.resolve() for path in keep_out)
        self._opened: dict[str, Opened] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def close(self) -> None:
        """Close every connection."""
        while self._opened:
            self._opened.popitem()[1].close()

    async def all(self) -> tuple[Storage, ...]:
        return await self._store.storages()

    async def get(self, name: str) -> Storage:
        found = await self._store.storage(name) if "\x00" not in name else None
        if found is None:
            raise Refused(
                "NoStorageError", f"there is no storage named {name!r}", "`pai storage list` shows those you may use"
            )
        return found

    async def add(self, document: Mapping[str, Any]) -> Storage:
        draft = self._read(document)
        storage = _storage(draft, self._secrets.seal(draft.secrets), self._clock.now_ms())
        await self._store.add_storage(storage)
        return storage

    async def change(self, name: str, document: Mapping[str, Any]) -> Storage:
        before = await self.get(name)
        draft = self._read({**document, "name": name})
        sealed = self._secrets.seal(draft.secrets)
        if sealed is None and before.sealed is not None and draft.logs_in:
            if (draft.kind, dict(draft.data)) != (before.kind, dict(before.data)):
                # A user who cannot read the credentials must not be able to send them to another server.
                raise InvalidParameters(
                    f"the storage {name} moves to another place, and its credentials belong to the old one",
                    "give the credentials for the new place in data",
                )
            sealed = before.sealed
        storage = _storage(draft, sealed, before.created_at_ms)
        await self._store.change_storage(storage)
        return storage

    async def remove(self, name: str) -> None:
        await self._store.remove_storage(name)
        self._opened.pop(name, None)
        self._opening.pop(name, None)

    async def grant(self, name: str, group: str, *, is_default: bool = False) -> None:
        await self._store.grant_storage(name, group, is_default=is_default)

    async def revoke(self, name: str, group: str) -> None:
        await self.get(name)
        await self._store.revoke_storage(name, group)

    async def groups(self, name: str) -> tuple[str, ...]:
        return await self._store.groups_of_storage(name)

    async def reach(self, name: str) -> Step:
        """Return the result of connecting, without writing anything."""
        storage = await self.get(name)
        try:
            opened = await self._open(storage)
        except PaiError as error:
            return Step("connect", False, error.message)
        if opened.connection is None:
            return (await try_unmounted(storage, opened.workers, opened.errors))[0]
        return await try_connection(opened.connection, opened.workers, opened.errors)

    async def check(self, name: str) -> Sequence[Step]:
        storage = await self.get(name)
        try:
            opened = await self._open(storage)
        except PaiError as error:
            return (Step("connect", False, error.message),)
        if opened.connection is None:
            return await try_unmounted(storage, opened.workers, opened.errors)
        step = await try_connection(opened.connection, opened.workers, opened.errors)
        if not step.is_ok:
            return (step,)
        area = DrivenArea(opened, opened.connection.driver(""), self._clock)
        return (step, *await try_area(storage, area, opened.errors))

    async def area(self, name: str, user: str) -> DrivenArea:
        storage = await self.get(name)
        opened = await self._open(storage)
        if opened.connection is None:
            raise BadConfiguration(
                f"jobs can mount the storage {name}, but it cannot be browsed: it is not mounted on this server",
                "an administrator can mount it on the server and set data.mountedAt to that directory",
            )
        folder = "" if storage.is_shared else folder_of(user)
        return DrivenArea(opened, opened.connection.driver(folder), self._clock)

    def _read(self, document: Mapping[str, Any]) -> Draft:
        # Only for definitions that are new: a start need not wait for the models of all kinds.
        from openpai.storage.kinds import read

        draft = read(document)
        if self._is_ours(draft):
            key = "path" if draft.kind == "local" else "mountedAt"
            message = f"data.{key}: {draft.data[key]} holds the platform's own data, secrets included"
            raise InvalidParameters(message, "choose a directory beside it")
        return draft

    def _is_ours(self, of: Draft | Storage) -> bool:
        """Return whether a storage is a directory that now contains the platform's own data."""
        place = of.data.get("path" if of.kind == "local" else "mountedAt")
        path = Path(place).resolve() if place else None
        return any(path == kept or path in kept.parents or kept in path.parents for kept in self._keep_out if path)

    async def _open(self, storage: Storage) -> Opened:
        # One at a time, so that concurrent first users share one connection.
        async with self._opening[storage.name]:
            # A user who may write beside the directory may have replaced it with a link since.
            if self._is_ours(storage):
                message = f"the directory of storage {storage.name} leads to the platform's own data now"
                raise Refused("ForbiddenUserError", message, "ask an administrator to check who may write beside it")
            known = self._opened.get(storage.name)
            if known is None or known.storage != storage:
                known = self._opened[storage.name] = await self._connected(storage)
            return known

    async def _connected(self, storage: Storage) -> Opened:
        secrets = self._secrets.open(storage.sealed)
        errors = ErrorTranslator(storage.name, tuple(secrets.values()))
        workers = Workers(storage.name)
        is_closed_to_us = storage.kind in ("nfs", "claim") and not storage.data.get("mountedAt")
        try:
            connection = None if is_closed_to_us else await workers.run(connect, storage, secrets)
        except Exception as error:
            workers.close()
            raise errors.error(error) from None
        return Opened(storage, workers, errors, connection)


def _storage(draft: Draft, sealed: Sealed | None, created_at_ms: int) -> Storage:
    return Storage(
        draft.name,
        draft.kind,
        draft.data,
        sealed,
        is_read_only=draft.is_read_only,
        is_shared=draft.is_shared,
        description=draft.description,
        created_at_ms=created_at_ms,
    )
