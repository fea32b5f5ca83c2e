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
    default: Annotated[bool, Doc("whether jobs that name no storage get it", example=False)]
    type: Annotated[str, Doc("OpenPAI's name of the type; `unknown` if it has none", example="nfs")]
    kind: Annotated[str, Doc(example="nfs")]
    readOnly: Annotated[bool, Doc(example=False)]
    description: Annotated[str, Doc(example="pictures with labels")]


class StorageList(Document):
    """The storages that the caller may use."""

    storages: Sequence[StorageEntry]


class StorageDetail(StorageEntry):
    """A storage in full, without its credentials."""

    data: Annotated[Mapping[str, Any], Doc(example=_NFS)]
    mountOptions: NotRequired[Annotated[Sequence[str], Doc(example=[])]]
    groups: NotRequired[Annotated[Sequence[GroupName], Doc("for administrators: groups that it is granted to")]]
    hasCredentials: NotRequired[Annotated[bool, Doc("for administrators", example=False)]]
    createdTime: Ms


class StorageStep(Document):
    """One step of a test."""

    step: Annotated[str, Doc(example="connect")]
    ok: Annotated[bool, Doc(example=True)]
    message: Annotated[str, Doc(example="nas.example.org answers")]


class StorageTest(Document):
    """The result of a test of a storage."""

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
    """The server of a storage, as older clients know it."""

    spn: StorageName
    type: Annotated[str, Doc(example="nfs")]
    data: Annotated[Mapping[str, Any], Doc(example=_NFS)]
    extension: Annotated[Mapping[str, Any], Doc(example={})]


class FileEntry(Document):
    """A file or a directory."""

    name: Annotated[str, Doc(example="train.tar")]
    type: Literal["file", "directory"]
    size: Annotated[int, Doc("bytes", example=1_048_576)]
    modifiedTime: Ms | None


class FileList(Document):
    """The entries of a directory."""

    storage: StorageName
    path: Annotated[str, Doc(example="pictures")]
    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    entries: Sequence[FileEntry]


class UploadedFile(Document):
    """A file that was uploaded."""

    storage: StorageName
    path: Annotated[str, Doc(example="pictures/train.tar")]
    size: Annotated[int, Doc("bytes", example=1_048_576)]
