"""Operations on storages and on the files in them."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, storage_files, storages

_NFS: Final = {"server": "nas.example.org", "path": "/export"}


_S: Final = "/api/v2/storages"
_O: Final = "/api/v2/storage"
_NO: Final = "NoStorageError"
_FILE: Final = f"{_NO} NoFileError"
_SAID: Final = {"name": "datasets", "type": "nfs", "data": _NFS}
_BYTES: Final = {"application/octet-stream": "hello\n"}
_HEADERS: Final = {
    "Accept-Ranges": "`bytes`",
    "Content-Disposition": "the name of the file",
    "Content-Range": "of a part: its place in the file",
    "ETag": "changes with the file",
}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_S}": Operation("listStorages", "List storages", storages.StorageList),
    f"POST {_S}": Operation(
        "createStorage", "Add a storage", storages.StorageDetail, "ConflictStorageError", request=_SAID
    ),
    f"GET {_S}/{{name}}": Operation("getStorage", "Show a storage", storages.StorageDetail, _NO),
    f"PUT {_S}/{{name}}": Operation("changeStorage", "Replace a storage", storages.StorageDetail, _NO, request=_SAID),
    f"DELETE {_S}/{{name}}": Operation("deleteStorage", "Forget a storage", answers.Message, _NO),
    f"POST {_S}/{{name}}/test": Operation("testStorage", "Test a storage", storages.StorageTest, _NO),
    f"PUT {_S}/{{name}}/groups/{{group}}": Operation(
        "grantStorage", "Grant a storage to a group", answers.Message, f"{_NO} NoGroupError"
    ),
    f"DELETE {_S}/{{name}}/groups/{{group}}": Operation(
        "revokeStorage", "Revoke a storage from a group", answers.Message, f"{_NO} NoGroupError"
    ),
    f"GET {_S}/{{name}}/files": Operation("listFiles", "List a directory", storage_files.FileList, _FILE),
    f"GET {_S}/{{name}}/files/{{path}}": Operation(
        "downloadFile",
        "Download a file",
        None,
        _FILE,
        media=_BYTES,
        headers=_HEADERS,
        statuses={"206": "the bytes that `Range` requested", "416": "the file has no such bytes"},
    ),
    f"PUT {_S}/{{name}}/files/{{path}}": Operation(
        "uploadFile", "Upload a file", storage_files.UploadedFile, f"{_FILE} ReadOnlyStorageError", request="hello\n"
    ),
    f"DELETE {_S}/{{name}}/files/{{path}}": Operation(
        "deleteFile", "Remove a file", answers.Message, f"{_FILE} ReadOnlyStorageError"
    ),
    f"GET {_O}/config": Operation(
        "listStorageConfigs", "List mounts for older clients", list[storages.StorageConfig], _NO
    ),
    f"GET {_O}/config/{{name}}": Operation(
        "getStorageConfig", "Show a mount for older clients", storages.StorageConfig, _NO
    ),
    f"GET {_O}/server": Operation(
        "listStorageServers", "List servers of storages for older clients", list[storages.StorageServer], _NO
    ),
    f"GET {_O}/server/{{name}}": Operation(
        "getStorageServer", "Show the server of a storage for older clients", storages.StorageServer, _NO
    ),
}
