"""Storages: named places for data. Contents are streamed by `client.files` and `client.async_files`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, Pages, asks, listed, nothing, pages, said, whole
from openpai.protocol.errors import Refused

FILES_PER_PAGE: Final = 10_000
UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
"""What no path in a storage may hold."""


def _storage(name: str) -> str:
    return f"/storages/{segment(name, 'a storage')}"


def file_path(name: str, path: str) -> str:
    """Return the path in the API of a file in a storage; raise Refused for one that leads elsewhere."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or UNFIT.search(path):
        message = f"{path!r} is not the path of a file in a storage"
        raise Refused(
            "InvalidParametersError", message, "no '..', no backslash, nothing but text: data/train/images.tar"
        )
    return f"{_storage(name)}/files/{quote('/'.join(parts))}"


class Storages:
    """Places for data."""

    @asks
    def storages(self, *, default: bool = False) -> Call[tuple[model.StorageView, ...]]:
        """Return the storages we are granted, or only the default ones of our groups."""
        return Call("GET", "/storages", listed(model.StorageView.read, "storages"), said(default=default or None))

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
        """Add a storage; credentials are part of `data` and never come back."""
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
        """Replace a storage; when no credentials are given, those it has stay, unless it moves to another place."""
        body = _body(type, data, read_only, share, description)
        return Call("PUT", _storage(name), whole(model.StorageView.read), json=body)

    @asks
    def remove_storage(self, name: str) -> Call[None]:
        """Forget a storage; the data in it stays."""
        return Call("DELETE", _storage(name), nothing)

    @asks
    def check_storage(self, name: str) -> Call[model.StorageTest]:
        """Have the server connect to a storage and try it."""
        return Call("POST", f"{_storage(name)}/test", whole(model.StorageTest.read), is_repeatable=True)

    @asks
    def grant_storage(self, name: str, group: str, *, default: bool = False) -> Call[None]:
        """Let a group use a storage."""
        path = f"{_storage(name)}/groups/{segment(group, 'a group')}"
        return Call("PUT", path, nothing, said(default=default or None))

    @asks
    def revoke_storage(self, name: str, group: str) -> Call[None]:
        """Let a group use a storage no longer."""
        path = f"{_storage(name)}/groups/{segment(group, 'a group')}"
        return Call("DELETE", path, nothing, is_repeatable=True)

    @pages
    def stored_files(self, name: str, path: str = "") -> Pages[model.FilePage, model.FileView]:
        """Yield what is in a directory of a storage, by name."""

        def page(offset: int) -> Call[model.FilePage]:
            query = {"path": path, "offset": str(offset), "limit": str(FILES_PER_PAGE)}
            return Call("GET", f"{_storage(name)}/files", whole(model.FilePage.read), query)

        message = 0

        def after(found: model.FilePage) -> Call[model.FilePage] | None:
            nonlocal message
            message += len(found.files)
            return page(message) if found.files and message < found.total else None

        return Pages(page(0), lambda found: found.files, after)

    @asks
    def remove_file(self, name: str, path: str, *, recursive: bool = False) -> Call[None]:
        """Remove a file of a storage, or with `recursive` a directory and all that is in it."""
        query = said(recursive=recursive or None)
        return Call("DELETE", file_path(name, path), nothing, query)


def _body(kind: str, data: Mapping[str, Any], read_only: bool, share: bool, description: str) -> dict[str, Any]:
    return {"type": kind, "data": dict(data), "readOnly": read_only, "share": share, "description": description}
