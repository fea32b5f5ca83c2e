"""What is told of storages and of the files in them."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from openpai.api.openapi.operations import Answer, GroupName, Message, Ms, Operation, StorageName

_NFS: Final = {"server": "nas.example.org", "path": "/export"}


class StorageEntry(Answer):
    """A storage."""

    name: StorageName
    share: bool = Field(description="false: each user sees a folder of their own", examples=[True])
    volumeName: StorageName
    default: bool = Field(description="whether jobs get it that name none", examples=[False])
    type: str = Field(description="as OpenPAI calls it; `unknown` for a kind that it has not", examples=["nfs"])
    kind: str = Field(examples=["nfs"])
    readOnly: bool = Field(examples=[False])
    description: str = Field(examples=["pictures with labels"])


class StorageEntries(Answer):
    """The storages one is granted."""

    storages: list[StorageEntry]


class StorageDetail(StorageEntry):
    """Where a storage is, without its credentials."""

    data: dict[str, Any] = Field(examples=[_NFS])
    mountOptions: list[str] = Field([], examples=[[]])
    groups: list[GroupName] = Field([], description="for administrators: who is granted it")
    hasCredentials: bool = Field(False, description="for administrators", examples=[False])
    createdTime: Ms


class StorageStep(Answer):
    """Something that was tried."""

    step: str = Field(examples=["connect"])
    ok: bool = Field(examples=[True])
    message: str = Field(examples=["nas.example.org answers"])


class StorageTest(Answer):
    """Whether a storage works."""

    name: StorageName
    ok: bool = Field(examples=[True])
    steps: list[StorageStep]


class FileEntry(Answer):
    """A file or a directory."""

    name: str = Field(examples=["train.tar"])
    type: Literal["file", "directory"]
    size: int = Field(description="bytes", examples=[1_048_576])
    modifiedTime: Ms | None


class FileEntries(Answer):
    """What is in a directory."""

    storage: StorageName
    path: str = Field(examples=["pictures"])
    totalCount: int = Field(ge=0, examples=[1])
    entries: list[FileEntry]


class Written(Answer):
    """A file that was written."""

    storage: StorageName
    path: str = Field(examples=["pictures/train.tar"])
    size: int = Field(description="bytes", examples=[1_048_576])


class MountInfo(Answer):
    """How jobs mount a storage."""

    mountPoint: str = Field(examples=["/mnt/datasets"])
    path: str = Field(examples=[""])
    server: StorageName
    permission: Literal["rw", "r"]


class StorageConfig(Answer):
    """How jobs mount a storage, as older clients know it."""

    name: StorageName
    default: bool = Field(examples=[False])
    servers: list[StorageName]
    mountInfos: list[MountInfo]


class StorageServer(Answer):
    """Where a storage is, as older clients know it."""

    spn: StorageName
    type: str = Field(examples=["nfs"])
    data: dict[str, Any] = Field(examples=[_NFS])
    extension: dict[str, Any] = Field(examples=[{}])


_S: Final = "/api/v2/storages"
_O: Final = "/api/v2/storage"
_NO: Final = "NoStorageError"
_FILE: Final = f"{_NO} NoFileError"
_SAID: Final = {"name": "datasets", "type": "nfs", "data": _NFS}
_BYTES: Final = {"application/octet-stream": "hello\n"}
_HEADERS: Final = {
    "Accept-Ranges": "`bytes`",
    "Content-Disposition": "the name of the file",
    "Content-Range": "of a part: which one it is",
    "ETag": "changes with the file",
}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_S}": Operation("listStorages", "List storages", StorageEntries),
    f"POST {_S}": Operation("createStorage", "Add a storage", StorageDetail, "ConflictStorageError", request=_SAID),
    f"GET {_S}/{{name}}": Operation("getStorage", "Show a storage", StorageDetail, _NO),
    f"PUT {_S}/{{name}}": Operation("changeStorage", "Replace a storage", StorageDetail, _NO, request=_SAID),
    f"DELETE {_S}/{{name}}": Operation("deleteStorage", "Forget a storage", Message, _NO),
    f"POST {_S}/{{name}}/test": Operation("testStorage", "Try whether a storage works", StorageTest, _NO),
    f"PUT {_S}/{{name}}/groups/{{group}}": Operation(
        "grantStorage", "Grant a storage to a group", Message, f"{_NO} NoGroupError"
    ),
    f"DELETE {_S}/{{name}}/groups/{{group}}": Operation(
        "revokeStorage", "Take a storage from a group", Message, f"{_NO} NoGroupError"
    ),
    f"GET {_S}/{{name}}/files": Operation("listFiles", "List a directory", FileEntries, _FILE),
    f"GET {_S}/{{name}}/files/{{path}}": Operation(
        "downloadFile", "Download a file", None, _FILE, media=_BYTES, headers=_HEADERS,
        statuses={"206": "the bytes that `Range` asked for", "416": "the file has no such bytes"},
    ),
    f"PUT {_S}/{{name}}/files/{{path}}": Operation(
        "uploadFile", "Upload a file", Written, f"{_FILE} ReadOnlyStorageError", request="hello\n"
    ),
    f"DELETE {_S}/{{name}}/files/{{path}}": Operation(
        "deleteFile", "Remove a file", Message, f"{_FILE} ReadOnlyStorageError"
    ),
    f"GET {_O}/config": Operation("listStorageConfigs", "List mounts for older clients", list[StorageConfig], _NO),
    f"GET {_O}/config/{{name}}": Operation("getStorageConfig", "Show a mount for older clients", StorageConfig, _NO),
    f"GET {_O}/server": Operation("listStorageServers", "List places for older clients", list[StorageServer], _NO),
    f"GET {_O}/server/{{name}}": Operation("getStorageServer", "Show a place for older clients", StorageServer, _NO),
}  # fmt: skip
