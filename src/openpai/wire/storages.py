"""Documents of storages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired

from openpai.wire.answers import GroupName, Ms, StorageName
from openpai.wire.doc import Doc, Document

_NFS: Final = {"server": "nas.example.org", "path": "/export"}


class StorageEntry(Document):
    """A storage."""

    name: StorageName
    share: Annotated[bool, Doc("false: each user sees a folder of their own", example=True)]
    volumeName: StorageName
    default: Annotated[bool, Doc("whether jobs get it that name none", example=False)]
    type: Annotated[str, Doc("as OpenPAI calls it; `unknown` for a kind that it has not", example="nfs")]
    kind: Annotated[str, Doc(example="nfs")]
    readOnly: Annotated[bool, Doc(example=False)]
    description: Annotated[str, Doc(example="pictures with labels")]


class StorageList(Document):
    """The storages one is granted."""

    storages: Sequence[StorageEntry]


class StorageDetail(StorageEntry):
    """Where a storage is, without its credentials."""

    data: Annotated[Mapping[str, Any], Doc(example=_NFS)]
    mountOptions: NotRequired[Annotated[Sequence[str], Doc(example=[])]]
    groups: NotRequired[Annotated[Sequence[GroupName], Doc("for administrators: who is granted it")]]
    hasCredentials: NotRequired[Annotated[bool, Doc("for administrators", example=False)]]
    createdTime: Ms


class StorageStep(Document):
    """Something that was tried."""

    step: Annotated[str, Doc(example="connect")]
    ok: Annotated[bool, Doc(example=True)]
    message: Annotated[str, Doc(example="nas.example.org answers")]


class StorageTest(Document):
    """Whether a storage works."""

    name: StorageName
    ok: Annotated[bool, Doc(example=True)]
    steps: Sequence[StorageStep]


class MountInfo(Document):
    """How jobs mount a storage."""

    mountPoint: Annotated[str, Doc(example="/mnt/datasets")]
    path: Annotated[str, Doc(example="")]
    server: StorageName
    permission: Literal["rw", "r"]


class StorageConfig(Document):
    """How jobs mount a storage, as older clients know it."""

    name: StorageName
    default: Annotated[bool, Doc(example=False)]
    servers: Sequence[StorageName]
    mountInfos: Sequence[MountInfo]


class StorageServer(Document):
    """Where a storage is, as older clients know it."""

    spn: StorageName
    type: Annotated[str, Doc(example="nfs")]
    data: Annotated[Mapping[str, Any], Doc(example=_NFS)]
    extension: Annotated[Mapping[str, Any], Doc(example={})]
