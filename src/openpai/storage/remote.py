"""Drives storages through fsspec: object stores and HDFS.

Only complete files are visible: object stores show nothing before an upload is finished, and elsewhere a file is
written under another name first. fsspec finishes a file whenever it closes it, even in a finaliser, so an aborted
upload is marked as closed without being finished.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from openpai.ports.storages import Entry
from openpai.storage.driver import PART_PREFIX, Names

BLOCK_BYTES = 8 << 20
REMOVED_AT_ONCE = 1000
RENAMES_MAX = 10
_VERSION_MARK = "?versionid="
"""The libraries for object stores read what follows this in a path as the version of another object."""

RemoveObjects = Callable[[Sequence[str]], object]
"""Removes up to `REMOVED_AT_ONCE` objects of an object store by their names."""


class RemoteConnection:
    """`driver.Connection` over fsspec: an object store when there is `remove_objects`, else a system that renames."""

    def __init__(self, files: Any, base: str, remove_objects: RemoveObjects | None = None) -> None:
        self._files = files
        self._base = base.rstrip("/")
        self._remove_objects = remove_objects

    def driver(self, folder: str) -> RemoteDriver:
        base = f"{self._base}/{folder}" if folder else self._base
        return RemoteDriver(self._files, base, self._remove_objects)

    def probe(self) -> None:
        """List the top; see `Connection.probe`. Object stores have no empty directories."""
        try:
            self._files.ls(self._base or "/", detail=True)
        except FileNotFoundError:
            top = self._base.partition("/")[0] or "/"
            try:
                self._files.ls(top, detail=True)
            except FileNotFoundError:
                raise FileNotFoundError(errno.ENOENT, f"there is no {top}") from None

    def close(self) -> None:
        """Close the library's connections."""
        close = getattr(getattr(self._files, "session", None), "close", None)
        if self._remove_objects is None and close is not None:
            close()


class RemoteDriver:
    """One folder of a file system of fsspec."""

    def __init__(self, files: Any, base: str, remove_objects: RemoveObjects | None) -> None:
        self._files = files
        self._base = base
        self._remove_objects = remove_objects

    def _path(self, names: Names) -> str:
        path = "/".join((self._base, *names)) or "/"
        if self._remove_objects and (_VERSION_MARK in path.lower() or self._files._strip_protocol(path) != path):  # noqa: SLF001
            raise OSError(errno.EINVAL, "no such name")
        return path

    def list(self, names: Names) -> Iterator[Entry]:
        """Yield the entries of a directory."""
        path = self._path(names)
        if names and not self._files.isdir(path):
            raise NotADirectoryError if self._files.exists(path) else FileNotFoundError
        for found in self._files.ls(path, detail=True):
            entry = _entry(found)
            # An object store may have an object for the directory itself.
            is_itself = str(found["name"]).strip("/") == path.strip("/")
            if entry.name and not is_itself:
                yield entry

    def entry(self, names: Names) -> Entry:
        """Return the entry of a file or directory."""
        return _entry(self._files.info(self._path(names)) | {"name": names[-1]})

    def reader(self, names: Names) -> RemoteReader:
        """Open a file."""
        path = self._path(names)
        if self._files.isdir(path):
            raise IsADirectoryError
        return RemoteReader(self._files.open(path, "rb", block_size=BLOCK_BYTES))

    def writer(self, names: Names) -> RemoteWriter:
        """Begin a file."""
        path = self._path(names)
        if self._files.isdir(path):
            raise IsADirectoryError
        for depth in range(1, len(names)):
            if self._files.isfile(self._path(names[:depth])):
                raise NotADirectoryError
        part = f"{path.rpartition('/')[0]}/{PART_PREFIX}{secrets.token_hex(8)}" if self._remove_objects is None else ""
        return RemoteWriter(self._files, path, part)

    def remove(self, names: Names, *, recursive: bool) -> None:
        """Remove a file or directory."""
        path = self._path(names)
        if not self._files.isdir(path):
            if not self._files.exists(path):
                raise FileNotFoundError
            self._files.rm_file(path)
            return
        if not recursive and any(True for _ in self.list(names)):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty")
        self._remove_tree(path)
        if self._files.exists(path):
            raise PermissionError("not all of it could be removed")

    def _remove_tree(self, path: str) -> None:
        if self._remove_objects is None:
            self._files.rm(path, recursive=True)
            return
        # The libraries for object stores would read `*` in a name as a pattern, and remove other files.
        found = sorted({*self._files.find(path), *([path] if self._files.isfile(path) else ())})
        for start in range(0, len(found), REMOVED_AT_ONCE):
            self._remove_objects(found[start : start + REMOVED_AT_ONCE])


class RemoteReader:
    """`driver.Reader` over a file of fsspec."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return bytes(self._file.read(size))

    def close(self) -> None:
        """Close it."""
        self._file.close()


class RemoteWriter:
    """A file that is being written through fsspec."""

    def __init__(self, files: Any, path: str, part: str) -> None:
        self._files = files
        self._path = path
        self._part = part
        self._file = files.open(part or path, "wb", block_size=BLOCK_BYTES)

    def write(self, data: bytes) -> None:
        """Append to it."""
        self._file.write(data)

    def commit(self) -> None:
        """Finish it."""
        self._file.close()
        for _ in range(RENAMES_MAX if self._part else 0):
            if self._files.exists(self._path):
                self._files.rm_file(self._path)
            self._files.mv(self._part, self._path)
            # HDFS does not report that the name was taken meanwhile.
            if not self._files.exists(self._part):
                return
        if self._part:
            raise OSError(errno.EBUSY, "others write the same file all the time")

    def discard(self) -> None:
        """Remove the incomplete file."""
        if not self._file.closed:
            with contextlib.suppress(Exception):
                self._file.discard()
            self._file.closed = True
        if self._part:
            with contextlib.suppress(Exception):
                self._files.rm_file(self._part)


def _entry(found: dict[str, Any]) -> Entry:
    name = str(found["name"]).rstrip("/").rpartition("/")[2]
    is_directory = found.get("type") == "directory"
    return Entry(name, is_directory, 0 if is_directory else int(found.get("size") or 0), _modified_at_ms(found))


def _modified_at_ms(found: dict[str, Any]) -> int | None:
    for key in ("LastModified", "last_modified", "mtime", "modificationTime"):
        value = found.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value)
    return None
