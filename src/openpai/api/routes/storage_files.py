"""The files in a storage: list, download with ranges, upload as a stream, remove.

`openpai.storage` keeps every path inside the storage and, where it has a folder for each user, inside the user's own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import invalid
from openpai.api.context import needs
from openpai.api.routes.storages import storage_for, storages_of
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import storages as shapes
from openpai.ports.storages import Area, Entry
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.wire.storages import FileList, UploadedFile

router = Router("storages", written=201)
Writing = Annotated[Caller, needs("storage.write")]
Reading = Annotated[Caller, needs("storage.read")]

ENTRIES_MAX: Final = 10_000
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_HEADERS: Final = {
    "Accept-Ranges": "`bytes`",
    "Content-Disposition": "the name of the file",
    "Content-Range": "of a part: its place in the file",
    "ETag": "changes with the file",
}


@router.serves("GET /api/v2/storages/{name}/files", "List a directory", "NoFileError")
async def list_files(
    request: Request,
    caller: Reading,
    name: str,
    path: str = "",
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=ENTRIES_MAX)] = ENTRIES_MAX,
) -> Reply[FileList]:
    """Return the entries of a directory of a storage, by name."""
    found = await (await _area(request, caller, name)).list(path)
    shown = [shapes.file_entry(each) for each in found[offset : offset + limit]]
    return reply(FileList(storage=name, path=path.strip("/"), totalCount=len(found), entries=shown))


@router.serves(
    "GET /api/v2/storages/{name}/files/{path:path}",
    "Download a file",
    "NoFileError",
    success="The file.",
    media={"application/octet-stream": "hello\n"},
    headers=_HEADERS,
    statuses={"206": "the bytes that `Range` requested", "416": "the file has no such bytes"},
)
async def download_file(request: Request, caller: Reading, name: str, path: str) -> Response:
    """Return a file, or the part of it that a `Range` header asks for."""
    area = await _area(request, caller, name)
    found = await area.entry(path)
    if found.is_directory:
        message = f"{path or '/'} in storage {name} is a directory"
        raise InvalidParameters(message, "list it with `?path=`, and download the files in it one by one")
    headers = _headers(found)
    wanted = request.headers.get("range")
    if request.headers.get("if-range") not in (None, headers.get("ETag")):
        # A client with the beginning of another version gets the whole file.
        wanted = None
    span = _asked(wanted, found.size)
    if span is None:
        message = f"{path} has {found.size} bytes, and none of those that were asked for"
        body = {"code": "InvalidParametersError", "message": message}
        return reply(body, 416, {"Content-Range": f"bytes */{found.size}"})
    start, end = span
    is_part = wanted is not None and (start, end) != (0, found.size)
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{found.size}"
    headers["Content-Length"] = str(end - start)
    content = await _begun(area.read(path, start, end))
    return StreamingResponse(content, 206 if is_part else 200, headers, "application/octet-stream")


@router.serves(
    "PUT /api/v2/storages/{name}/files/{path:path}",
    "Upload a file",
    "NoFileError ReadOnlyStorageError",
    example="hello\n",
    takes={"requestBody": {"required": False, "content": _BYTES}},
)
async def upload_file(request: Request, caller: Writing, name: str, path: str) -> Reply[UploadedFile]:
    """Create or replace a file with the body of the request; it becomes visible when it is complete."""
    if "content-range" in request.headers:
        raise invalid("only whole files can be uploaded, and Content-Range marks this body as a part of one")
    area = await _area(request, caller, name)
    size = await area.write(path, request.stream())
    return reply(UploadedFile(storage=name, path=path.strip("/"), size=size), 201)


@router.serves("DELETE /api/v2/storages/{name}/files/{path:path}", "Remove a file", "NoFileError ReadOnlyStorageError")
async def delete_file(request: Request, caller: Writing, name: str, path: str, recursive: bool = False) -> Accepted:
    """Remove a file or an empty directory, or with `recursive` a directory and its contents."""
    area = await _area(request, caller, name)
    await area.remove(path, recursive=recursive)
    return accepted(f"{path.strip('/')} is removed from storage {name}")


async def _area(request: Request, caller: Caller, name: str) -> Area:
    storage = await storage_for(request, caller, name)
    if caller.action == "storage.write" and storage.is_read_only:
        message = f"the storage {name} is read-only"
        raise Refused("ReadOnlyStorageError", message, "an administrator can make it writable")
    return await storages_of(request).area(name, caller.user)


def _headers(found: Entry) -> dict[str, str]:
    headers = {
        "Accept-Ranges": "bytes",
        # Encode the name, so that it cannot inject anything into the header.
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
    }
    if found.modified_at_ms is not None:
        headers["ETag"] = f'"{found.modified_at_ms:x}-{found.size:x}"'
    return headers


def _asked(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the range of bytes that is requested, or None if the file has no such bytes."""
    if header is None:
        return 0, size
    found = _RANGE.fullmatch(header.strip())
    if found is None or not any(found.groups()):
        raise invalid(f"the range {header!r} cannot be read; write it like bytes=0-1023")
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    return (start, end) if start < end else None


async def _begun(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the same content with its first part read, so that a failure there can still become an error."""
    first = await anext(content, b"")

    async def whole() -> AsyncIterator[bytes]:
        if first:
            yield first
        async for piece in content:
            yield piece

    return whole()
