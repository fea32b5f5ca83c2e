"""Storages and their files in OpenPAI's shapes. Credentials are in none of them: no function here is given any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from openpai.ports.storages import Entry, Step, Storage
from openpai.wire import storages as wire

# OpenPAI's names. The storage page of its portal stays blank if it does not know a type.
_TYPE: Final = {"nfs": "nfs", "smb": "samba", "azureBlob": "azureBlob"}


def listed(storage: Storage, *, is_default: bool) -> wire.StorageEntry:
    """Return a storage as an entry of the list."""
    return {
        "name": storage.name,
        "share": storage.is_shared,
        "volumeName": storage.name,
        "default": is_default,
        "type": _type(storage),
        "kind": storage.kind,
        "readOnly": storage.is_read_only,
        "description": storage.description,
    }


def detail(storage: Storage, *, is_default: bool, groups: Sequence[str] | None = None) -> wire.StorageDetail:
    """Return a storage in full; `groups` are for users who may change it."""
    shown: wire.StorageDetail = {
        # mypy allows for entries of larger types; this one has no optional keys.
        **listed(storage, is_default=is_default),  # type: ignore[typeddict-item]
        "data": _data(storage),
        "createdTime": storage.created_at_ms,
    }
    if storage.data.get("mountOptions"):
        shown["mountOptions"] = str(storage.data["mountOptions"]).split(",")
    if groups is not None:
        shown["groups"] = groups
        shown["hasCredentials"] = storage.sealed is not None
    return shown


def config(storage: Storage, *, is_default: bool) -> wire.StorageConfig:
    """Return a storage as OpenPAI's older clients know one: how jobs mount it."""
    path = "" if storage.is_shared else "%USER"
    mount: wire.MountInfo = {
        "mountPoint": f"/mnt/{storage.name}",
        "path": path,
        "server": storage.name,
        "permission": "r" if storage.is_read_only else "rw",
    }
    return {"name": storage.name, "default": is_default, "servers": [storage.name], "mountInfos": [mount]}


def server(storage: Storage) -> wire.StorageServer:
    """Return a storage as OpenPAI's older clients know one: its server."""
    return {"spn": storage.name, "type": _type(storage).lower(), "data": _server_data(storage), "extension": {}}


def _server_data(storage: Storage) -> dict[str, Any]:
    data = _data(storage)
    if storage.kind == "nfs":
        return {"address": data.get("server", ""), "rootPath": data.get("path", "")}
    if storage.kind == "smb":
        address, _, root = str(data["address"]).removeprefix("//").partition("/")
        who = {"userName": data.get("username", ""), "password": "", "domain": data.get("domain", "")}
        return {"address": address, "rootPath": root, **who}
    if storage.kind == "azureBlob":
        message = {name: data.get(name, "") for name in ("containerName", "accountName")}
        return {"dataStore": "", **message, "key": ""}
    return {"path": data["path"]}


def _type(storage: Storage) -> str:
    return _TYPE.get(storage.kind, "unknown")


def step(tried: Step) -> wire.StorageStep:
    return {"step": tried.what, "ok": tried.is_ok, "message": tried.message}


def file_entry(found: Entry) -> wire.FileEntry:
    return {
        "name": found.name,
        "type": "directory" if found.is_directory else "file",
        "size": found.size,
        "modifiedTime": found.modified_at_ms,
    }


def _data(storage: Storage) -> dict[str, Any]:
    data = dict(storage.data)
    if storage.kind == "smb":
        rest = f"/{data['path'].strip('/')}" if data.get("path") else ""
        data["address"] = f"//{data['server']}/{data['share']}{rest}"
    # OpenPAI's portal requires a path of every storage.
    data.setdefault("path", str(data.get("prefix") or ""))
    return data
