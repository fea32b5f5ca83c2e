"""Storages: named places for data. Contents are streamed by `client.files` and `client.async_client`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import quote

from openpai.client import model
from openpai.client.calls.naming import OverWire, segment
from openpai.client.calls_core import Call, asks, iterates, listed, nothing, query_of, whole
from openpai.protocol.errors import InvalidParameters

FILES_PER_PAGE: Final = 10_000
UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
"""Characters that no path in a storage may contain."""


def _storage(name: str) -> str:
    return f"/storages/{segment(name, 'a storage')}"


def file_path(name: str, path: str) -> str:
    """Return the path in the API of a file in a storage; raise Refused for a path that leaves the storage."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or UNFIT.search(path):
        message = f"{path!r} is not the path of a file in a storage"
        advice = "write it like data/train/images.tar, without '..', backslashes and control characters"
        raise InvalidParameters(message, advice)
    return f"{_storage(name)}/files/{quote('/'.join(parts))}"


class Storages(OverWire):
    """Places for data."""

    @asks
    def storages(self, *, default: bool = False) -> Call[tuple[model.StorageView, ...]]:
        """Return the user's storages, or only the default ones of their groups."""
        return Call("GET", "/storages", listed(model.StorageView.read, "storages"), query_of(default=default or None))

    @asks
    def storage(self, name: str) -> Call[model.StorageView]:
        """Return one storage."""
        return Call("GET", _storage(name), whole(model.StorageView.read))

    @asks
    def add_storage(
        self,
        name: str,
        type: str,  # noqa: A002 - the API calls it so
        data: Mapping[str, Any],
        *,
        read_only: bool = False,
        share: bool = True,
        description: str = "",
    ) -> Call[model.StorageView]:
        """Add a storage; credentials are part of `data` and are never returned."""
        body = {"name": name, **_body(type, data, read_only, share, description)}
        return Call("POST", "/storages", whole(model.StorageView.read), json=body)

    @asks
    def change_storage(
        self,
        name: str,
        type: str,  # noqa: A002
        data: Mapping[str, Any],
        *,
        read_only: bool = False,
        share: bool = True,
        description: str = "",
    ) -> Call[model.StorageView]:
        """Replace a storage; without new credentials the stored ones remain, unless its address changes."""
        body = _body(type, data, read_only, share, description)
        return Call("PUT", _storage(name), whole(model.StorageView.read), json=body)

    @asks
    def remove_storage(self, name: str) -> Call[None]:
        """Remove a storage; the data in it is not touched."""
        return Call("DELETE", _storage(name), nothing)

    @asks
    def check_storage(self, name: str) -> Call[model.StorageTest]:
        """Test a storage from the server."""
        return Call("POST", f"{_storage(name)}/test", whole(model.StorageTest.read), is_repeatable=True)

    @asks
    def grant_storage(self, name: str, group: str, *, default: bool = False) -> Call[None]:
        """Grant a storage to a group."""
        path = f"{_storage(name)}/groups/{segment(group, 'a group')}"
        return Call("PUT", path, nothing, query_of(default=default or None))

    @asks
    def revoke_storage(self, name: str, group: str) -> Call[None]:
        """Revoke a storage from a group."""
        path = f"{_storage(name)}/groups/{segment(group, 'a group')}"
        return Call("DELETE", path, nothing, is_repeatable=True)

    @iterates
    async def stored_files(self, name: str, path: str = "") -> AsyncGenerator[model.FileView, None]:
        """Yield the entries of a directory of a storage, by name."""
        count, is_more = 0, True
        while is_more:
            query = {"path": path, "offset": str(count), "limit": str(FILES_PER_PAGE)}
            found = await self.wire.ask(Call("GET", f"{_storage(name)}/files", whole(model.FilePage.read), query))
            for file in found.files:
                yield file
            count += len(found.files)
            is_more = bool(found.files) and count < found.total

    @asks
    def remove_file(self, name: str, path: str, *, recursive: bool = False) -> Call[None]:
        """Remove a file of a storage, or with `recursive` a directory and its contents."""
        query = query_of(recursive=recursive or None)
        return Call("DELETE", file_path(name, path), nothing, query)


def _body(kind: str, data: Mapping[str, Any], read_only: bool, share: bool, description: str) -> dict[str, Any]:
    return {"type": kind, "data": dict(data), "readOnly": read_only, "share": share, "description": description}
