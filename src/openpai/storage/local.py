"""Storages that are directories of this machine, with no way out of them.

A path is resolved first, links included, and refused if it leads outside. Then it is walked down from the storage's
own directory, name by name and following no link, so that replacing a directory by a link meanwhile gains nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from typing import Final

from openpai.ports.storages import Entry
from openpai.protocol.errors import Refused, Unavailable
from openpai.storage.driver import PART_PREFIX, Names
from openpai.system.removal import TreeRemoval

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SLICE: Final = 1000
_PATIENCE_S: Final = 50.0
"""Shorter than the limit on a call to a storage."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalConnection:
    """`driver.Connection` over a directory of this machine."""

    def __init__(self, root: str) -> None:
        self._root = root

    def driver(self, folder: str) -> LocalDriver:
        return LocalDriver(self._root, folder)

    def probe(self) -> None:
        os.close(_opened(self._root))

    def close(self) -> None:
        """Do nothing: no directory is kept open."""


class LocalDriver:
    """One folder of a directory."""

    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._folder = folder

    def list(self, names: Names) -> Iterator[Entry]:
        """Yield the entries of a directory, except links that lead outside."""
        with self._parent((*names, "."), follows_last=False) as (directory, _):
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
            try:
                with os.scandir(handle) as every:
                    for found in every:
                        with contextlib.suppress(OSError, Refused):
                            # Only a link must be resolved from the top down.
                            is_link = found.is_symlink()
                            if is_link or found.is_dir() or found.is_file():
                                yield self.entry((*names, found.name)) if is_link else _entry(found.name, found.stat())
            finally:
                os.close(handle)

    def entry(self, names: Names) -> Entry:
        """Return the entry of a file or directory."""
        with self._parent(names) as (directory, name):
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return _entry(names[-1] if names else "", found)

    def reader(self, names: Names) -> LocalReader:
        """Open a file; anything else, such as a device, is refused."""
        with self._parent(names) as (directory, name):
            file = os.open(name, _READ, dir_fd=directory)
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            os.close(file)
            raise IsADirectoryError if stat.S_ISDIR(mode) else PermissionError("it is not a regular file")
        return LocalReader(file)

    def writer(self, names: Names) -> LocalWriter:
        """Begin a file."""
        with self._parent(names, makes=True) as (directory, name):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                    raise IsADirectoryError
            return LocalWriter(os.dup(directory), name)

    def remove(self, names: Names, *, recursive: bool) -> None:
        """Remove a file, a link (not what it leads to) or a directory."""
        with self._parent(names, follows_last=False) as (directory, name):
            if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=directory)
            elif recursive:
                _remove_tree(name, directory)
            else:
                os.rmdir(name, dir_fd=directory)

    @contextlib.contextmanager
    def _parent(self, names: Names, *, follows_last: bool = True, makes: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the open directory that contains a path, and the name it has there, links resolved."""
        down = self._resolved(names, follows_last=follows_last)
        handle = _opened(self._root)
        try:
            for name in (*((self._folder,) if self._folder else ()), *down[:-1]):
                above, handle = handle, _entered(handle, name, makes=makes)
                os.close(above)
            yield handle, down[-1] if down else "."
        finally:
            os.close(handle)

    def _resolved(self, names: Names, *, follows_last: bool) -> tuple[str, ...]:
        """Return the names of a path without links, relative to the folder; refuse a path that leads outside."""
        base = os.path.realpath(os.path.join(self._root, self._folder))  # noqa: PTH118
        if not follows_last:
            above = self._resolved(names[:-1], follows_last=True)
            return (*above, *names[-1:])
        path = os.path.realpath(os.path.join(base, *names))  # noqa: PTH118
        if path == base:
            return ()
        if not path.startswith(f"{base.rstrip('/')}/"):
            raise Refused(
                "ForbiddenUserError",
                f"{'/'.join(names)} is a link that leads out of the storage",
                "copy what it leads to into the storage",
            )
        return tuple(path[len(base.rstrip("/")) + 1 :].split("/"))


def _entry(name: str, found: os.stat_result) -> Entry:
    is_directory = stat.S_ISDIR(found.st_mode)
    return Entry(name, is_directory, 0 if is_directory else found.st_size, found.st_mtime_ns // 1_000_000)


def _remove_tree(name: str, directory: int) -> None:
    """Remove a directory with everything in it. Raise Unavailable if that takes too long."""
    removal = TreeRemoval(name, dir_fd=directory)
    until_s = time.monotonic() + _PATIENCE_S
    try:
        while not removal.remove_some(_SLICE):
            if time.monotonic() > until_s:
                message = f"{name} holds so much that a part of it is still there"
                raise Unavailable(message, "remove it again: that goes on where this ended")
    finally:
        removal.close()


def _opened(root: str) -> int:
    try:
        return os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        # Not a fault of the request: the directory may not be mounted yet.
        message = f"there is no directory {root} on this server"
        raise Unavailable(message, "an administrator can make it, or mount what belongs there") from None


def _entered(handle: int, name: str, *, makes: bool) -> int:
    """Return the directory `name` of an open one, opened."""
    if makes:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=handle)  # a Path cannot be relative to an open directory
    return os.open(name, _DIRECTORY, dir_fd=handle)


class LocalReader:
    """`driver.Reader` over a file of this machine."""

    def __init__(self, file: int) -> None:
        self._file = file

    def read(self, start: int, size: int) -> bytes:
        return os.pread(self._file, size, start)

    def close(self) -> None:
        """Close it."""
        os.close(self._file)


class LocalWriter:
    """An incomplete file next to the one it will replace."""

    def __init__(self, directory: int, name: str) -> None:
        self._directory = directory
        self._name = name
        self._part = f"{PART_PREFIX}{secrets.token_hex(8)}"
        try:
            self._file = os.open(self._part, _NEW, 0o666, dir_fd=directory)
        except OSError:
            os.close(directory)
            raise

    def write(self, data: bytes) -> None:
        """Append to it."""
        while data:
            data = data[os.write(self._file, data) :]

    def commit(self) -> None:
        """Move it to its place, durably."""
        os.fsync(self._file)
        os.rename(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._close()

    def discard(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            os.unlink(self._part, dir_fd=self._directory)
        self._close()

    def _close(self) -> None:
        # A call that timed out may still use the descriptor; its number must not be reused for another file.
        file, self._file = self._file, -1
        directory, self._directory = self._directory, -1
        for opened in (file, directory):
            if opened >= 0:
                os.close(opened)
