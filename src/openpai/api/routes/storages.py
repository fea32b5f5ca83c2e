"""Storages: list, show, add, change, test, remove, and grant them to groups."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import ConfigDict

from openpai.access.deciding import refusal
from openpai.access.model import Thing
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import storages as shapes
from openpai.ports.storages import Storage, Storages
from openpai.protocol.errors import InvalidParameters
from openpai.storage.kinds import schema
from openpai.wire.storages import StorageConfig, StorageDetail, StorageList, StorageServer, StorageTest

_NFS: Final = {"name": "datasets", "type": "nfs", "data": {"server": "nas.example.org", "path": "/export"}}
router = Router("storages", written=201)
Listing = Annotated[Caller, needs("storage.list")]
Reading = Annotated[Caller, needs("storage.read")]
Changing = Annotated[Caller, needs("storage.change")]

Names = Annotated[list[str] | None, Query()]


def _takes(*, is_named_by_path: bool = False) -> dict[str, Any]:
    definition = schema()
    if is_named_by_path:
        for kind in definition["oneOf"]:
            kind["required"] = [key for key in kind["required"] if key != "name"]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": definition}}}}


class StorageBody(Body):
    """The description of a storage; the storage checks the fields that depend on its type."""

    model_config = ConfigDict(extra="allow", frozen=True)


def storages_of(request: Request) -> Storages:
    """Return the storages of this server."""
    return context_of(request).services.storages


async def storage_for(request: Request, caller: Caller, name: str, action: str | None = None) -> Storage:
    """Return the storage a path names; raise NoStorageError or ForbiddenUserError."""
    storage = await storages_of(request).get(name)
    caller.check(Thing(storage=storage.name, label=f"the storage {storage.name}"), action)
    return storage


async def _visible(request: Request, caller: Caller) -> list[Storage]:
    every = await storages_of(request).all()
    return [each for each in every if refusal(caller.principal, "storage.read", Thing(storage=each.name)) is None]


def _is_default(caller: Caller, storage: Storage) -> bool:
    return storage.name in caller.principal.default_storages


@router.serves("GET /api/v2/storages", "List storages")
async def list_storages(request: Request, caller: Listing, default: bool = False) -> Reply[StorageList]:
    """Return the storages that the caller may use, or only the default ones of their groups."""
    found = await _visible(request, caller)
    shown = [shapes.listed(each, is_default=_is_default(caller, each)) for each in found]
    return reply(StorageList(storages=[each for each in shown if each["default"] or not default]))


@router.serves("POST /api/v2/storages", "Add a storage", "ConflictStorageError", takes=_takes, example=_NFS)
async def create_storage(request: Request, caller: Changing) -> Reply[StorageDetail]:
    """Add a storage. Credentials in `data` are encrypted and never returned; the server does not connect to it yet."""
    definition = await read_body(request, StorageBody)
    storage = await storages_of(request).add(definition.model_dump())
    return reply(await _detail(request, caller, storage), 201)


@router.serves("GET /api/v2/storages/{name}", "Show a storage")
async def get_storage(request: Request, caller: Reading, name: str) -> Reply[StorageDetail]:
    """Return a storage, without its credentials."""
    return reply(await _detail(request, caller, await storage_for(request, caller, name)))


@router.serves(
    "PUT /api/v2/storages/{name}", "Replace a storage", takes=partial(_takes, is_named_by_path=True), example=_NFS
)
async def change_storage(request: Request, caller: Changing, name: str) -> Reply[StorageDetail]:
    """Replace a storage. Without new credentials the stored ones remain, unless its address changes."""
    definition = (await read_body(request, StorageBody)).model_dump()
    if definition.get("name", name) != name:
        message = f"the storage {name!r} cannot be renamed to {definition['name']!r}"
        raise InvalidParameters(message, "add it under the new name, grant that, and remove the old one")
    return reply(await _detail(request, caller, await storages_of(request).change(name, definition)), 201)


@router.serves("DELETE /api/v2/storages/{name}", "Forget a storage")
async def delete_storage(request: Request, caller: Changing, name: str) -> Accepted:
    """Remove a storage and its grants; the data in it is not touched."""
    groups = await storages_of(request).groups(name)
    await storages_of(request).remove(name)
    await _forget_members(request, *groups)
    return accepted(f"storage {name} is removed; its data is still where it was")


@router.serves("POST /api/v2/storages/{name}/test", "Test a storage", status=200)
async def test_storage(request: Request, caller: Changing, name: str) -> Reply[StorageTest]:
    """Connect to a storage, list it and, unless it is read-only, write, read and remove a small file."""
    steps = await storages_of(request).check(name)
    return reply(
        {"name": name, "ok": all(step.is_ok for step in steps), "steps": [shapes.step(each) for each in steps]}
    )


@router.serves("PUT /api/v2/storages/{name}/groups/{group}", "Grant a storage to a group", "NoGroupError")
async def grant_storage(
    request: Request,
    caller: Changing,
    name: str,
    group: str,
    default: Annotated[bool, Query(description="Make it the group's default storage.")] = False,
) -> Accepted:
    """Grant a storage to a group; the first storage of a group is its default one."""
    await storages_of(request).grant(name, group, is_default=default)
    await _forget_members(request, group)
    return accepted(f"group {group} may use the storage {name}", 201)


@router.serves("DELETE /api/v2/storages/{name}/groups/{group}", "Revoke a storage from a group", "NoGroupError")
async def revoke_storage(request: Request, caller: Changing, name: str, group: str) -> Accepted:
    """Revoke a storage from a group; running jobs continue."""
    await storages_of(request).revoke(name, group)
    await _forget_members(request, group)
    return accepted(f"group {group} may no longer use the storage {name}")


@router.serves("GET /api/v2/storage/config", "List mounts for older clients", deprecated=True)
async def list_storage_configs(request: Request, caller: Listing, names: Names = None) -> Reply[list[StorageConfig]]:
    """Return storages as OpenPAI's older clients know them: how jobs mount them."""
    found = await _named(request, caller, names)
    return reply([shapes.config(each, is_default=_is_default(caller, each)) for each in found])


@router.serves("GET /api/v2/storage/config/{name}", "Show a mount for older clients", deprecated=True)
async def get_storage_config(request: Request, caller: Reading, name: str) -> Reply[StorageConfig]:
    """Return one storage as OpenPAI's older clients know it: how jobs mount it."""
    found = await storage_for(request, caller, name)
    return reply(shapes.config(found, is_default=_is_default(caller, found)))


@router.serves("GET /api/v2/storage/server", "List servers of storages for older clients", deprecated=True)
async def list_storage_servers(request: Request, caller: Listing, names: Names = None) -> Reply[list[StorageServer]]:
    """Return storages as OpenPAI's older clients know them: their servers."""
    return reply([shapes.server(each) for each in await _named(request, caller, names)])


@router.serves("GET /api/v2/storage/server/{name}", "Show the server of a storage for older clients", deprecated=True)
async def get_storage_server(request: Request, caller: Reading, name: str) -> Reply[StorageServer]:
    """Return one storage as OpenPAI's older clients know it: its server."""
    return reply(shapes.server(await storage_for(request, caller, name)))


async def _detail(request: Request, caller: Caller, storage: Storage) -> StorageDetail:
    may_change = refusal(caller.principal, "storage.change") is None
    groups = await storages_of(request).groups(storage.name) if may_change else None
    return shapes.detail(storage, is_default=_is_default(caller, storage), groups=groups)


async def _named(request: Request, caller: Caller, names: list[str] | None) -> list[Storage]:
    if names is None:
        return await _visible(request, caller)
    return [await storage_for(request, caller, name, "storage.read") for name in names]


async def _forget_members(request: Request, *groups: str) -> None:
    """Make a grant take effect at once, also for users with a cached token."""
    context = context_of(request)
    for group in groups:
        for member in await context.services.users.members(group):
            context.sessions.forget(member)
