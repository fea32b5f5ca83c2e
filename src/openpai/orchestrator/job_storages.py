"""The storages that a job asks for: whether they are granted, and how its tasks mount them.

A submission completes the job's list of storages: default storages by name, each with the path it is mounted at.
Credentials are opened when a task is launched; a storage that changed since the submission is mounted as it is then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from openpai.ports.backend import Mount
from openpai.ports.identity import Sealer
from openpai.ports.platform import Submitter
from openpai.ports.storages import Storage, StorageStore
from openpai.ports.store import JobRecord, Sealed
from openpai.protocol.errors import Fault, InvalidProtocol, Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.storages import StorageUse, uses, with_uses

_MOUNTABLE: Final = ("local", "nfs", "smb")
_RESERVED: Final = ("/", "/proc", "/sys", "/dev", "/etc", "/bin", "/usr", "/lib", "/usr/local/pai")
_PATH: Final = re.compile(r"/[^\x00-\x1f\x7f:]{1,1023}")


async def with_storages(spec: JobSpec, by: Submitter, store: StorageStore | None) -> JobSpec:
    """Return the job with a complete list of storages, each of them granted and mountable.

    Raises NoStorageError, and InvalidProtocol for a storage that cannot be mounted, or not at that path.
    """
    if not uses(spec, by.default_storages):
        return spec
    known = {storage.name: storage for storage in await store.storages()} if store else {}
    # A group may be granted a storage that does not exist; only a job that names it is refused.
    wanted = uses(spec, [name for name in by.default_storages if name in known])
    _check_paths(wanted)
    for use in wanted:
        if use.name not in known or (by.storages is not None and use.name not in by.storages):
            message = f"there is no storage {use.name!r} that {by.user} is granted"
            raise Refused("NoStorageError", message, "`pai storage list` shows the storages you may use")
        _check_mountable(use, known[use.name])
    return with_uses(spec, wanted)


async def known_storages(store: StorageStore | None, records: Iterable[JobRecord]) -> Mapping[str, Storage]:
    """Return all storages if one of these jobs uses any."""
    if store is None or not any(uses(record.spec) for record in records):
        return {}
    return {storage.name: storage for storage in await store.storages()}


def mounts(spec: JobSpec, user: str, known: Mapping[str, Storage], secrets: Sealer) -> tuple[Mount, ...]:
    """Return the mounts of a job's storages. Raises NoStorageError for one that was removed."""
    found = []
    for use in uses(spec):
        storage = known.get(use.name)
        if storage is None:
            raise Refused("NoStorageError", f"the storage {use.name!r} was removed", "submit the job without it")
        _check_mountable(use, storage)
        found.append(_mount(storage, use, user, storage.sealed, secrets))
    return tuple(found)


def directories(known: Iterable[Storage]) -> dict[str, str]:
    """Return the directories of nodes that storages are at, by the names of the storages."""
    return {storage.name: place for storage in known if (place := _place(storage))}


def _place(storage: Storage) -> str:
    """Return the directory of nodes that a storage is at; empty for one that is mounted over the network."""
    data = storage.data
    return str(data.get("mountedAt") or (data["path"] if storage.kind == "local" else ""))


def _mount(storage: Storage, use: StorageUse, user: str, sealed: Sealed | None, secrets: Sealer) -> Mount:
    data, claim = storage.data, str(storage.data.get("claim", ""))
    place = _place(storage)
    if place or (claim and (storage.kind not in _MOUNTABLE or not storage.is_shared)):
        folder = "" if storage.is_shared else user
        if folder in (".", ".."):
            raise Refused("ForbiddenUserError", f"the user name {user!r} cannot be the name of a folder")
        return Mount(storage.name, place, use.mount_path, storage.is_read_only, folder, claim=claim)
    mode = "ro" if storage.is_read_only else "rw"
    if storage.kind == "nfs":
        options = [f"addr={data['server']}", mode, *filter(None, [data.get("mountOptions", "")])]
        return _network_mount(storage, use, "nfs", f":{data['path']}", options)
    # The kernel reads two commas as one comma inside the password.
    password = str(secrets.open(sealed).get("password", "")).replace(",", ",,")
    options = [f"addr={data['server']}", mode, f"port={data['port']}"]
    if data.get("domain"):
        options.append(f"domain={data['domain']}")
    # The password comes last, so that a backend can find its end.
    options += [f"username={data['username']}", f"password={password}"] if data.get("username") else ["guest"]
    below = f"/{data['path'].strip('/')}" if data.get("path", "").strip("/") else ""
    return _network_mount(storage, use, "cifs", f"//{data['server']}/{data['share']}{below}", options)


def _network_mount(storage: Storage, use: StorageUse, filesystem: str, source: str, options: Sequence[str]) -> Mount:
    return Mount(
        storage.name,
        source,
        use.mount_path,
        storage.is_read_only,
        filesystem=filesystem,
        options=",".join(options),
        claim=str(storage.data.get("claim", "")),
    )


def _check_mountable(use: StorageUse, storage: Storage) -> None:
    if storage.data.get("claim"):
        return
    if storage.kind not in _MOUNTABLE:
        message = f"the storage {use.name!r} is of type {storage.kind} and cannot be mounted"
        advice = (
            f"download the data in the job's commands: pai storage download {use.name} PATH; pods can mount it by a "
            "volume claim that an administrator names in data.claim"
        )
    elif not storage.is_shared and storage.kind != "local" and not storage.data.get("mountedAt"):
        message = f"the storage {use.name!r} has a folder for each user, which can be mounted only from a directory"
        advice = "an administrator can mount it on the nodes and name the directory in data.mountedAt"
    else:
        return
    raise InvalidProtocol((Fault(use.where, f"{message}; {advice}"),))


def _check_paths(wanted: Sequence[StorageUse]) -> None:
    faults = []
    for number, use in enumerate(wanted):
        where = f"{use.where}.mountPath"
        path = use.mount_path
        if not _PATH.fullmatch(path) or path in _RESERVED or path.startswith(("/proc/", "/sys/", "/usr/local/pai/")):
            faults.append(Fault(where, f"nothing can be mounted at {path!r}", allowed="a path such as /mnt/data"))
        if any(other.mount_path == path for other in wanted[:number]):
            faults.append(Fault(where, f"another storage is mounted at {path!r} already"))
        if any(other.name == use.name for other in wanted[:number]):
            faults.append(Fault(f"{use.where}.name", f"the storage {use.name!r} is asked for twice"))
    if faults:
        raise InvalidProtocol(tuple(faults))
