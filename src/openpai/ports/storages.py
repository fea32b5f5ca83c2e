"""Storages: named places for data that jobs mount and people browse.

A storage is granted to groups. What is secret about it is sealed when it comes in and opened only to connect; no
promise here gives it back. An area is what one person sees of a storage: paths in it are relative, and none leads out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from openpai.ports.store import Sealed

KINDS: Final = ("local", "nfs", "smb", "s3", "azureBlob", "webhdfs")


@dataclass(frozen=True, slots=True)
class Storage:
    """A place for data."""

    name: str
    kind: str
    data: Mapping[str, Any]
    """Where it is: path, server, bucket, container, ...; nothing secret."""
    sealed: Sealed | None = field(default=None, repr=False)
    """Its credentials, encrypted; never shown."""
    is_read_only: bool = False
    is_shared: bool = True
    """False: each user sees a folder of their own name in it."""
    description: str = ""
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory in a storage."""

    name: str
    is_directory: bool
    size: int = 0
    modified_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried to find out whether a storage works, and how that went, in a sentence."""

    what: str
    is_ok: bool
    message: str = ""


class StorageStore(Protocol):
    """Remembers storages."""

    async def storages(self) -> tuple[Storage, ...]:
        """Return all storages by name."""
        ...

    async def storage(self, name: str) -> Storage | None:
        """Return one storage."""
        ...

    async def add_storage(self, storage: Storage) -> None:
        """Remember a storage. Raises ConflictStorageError for a name that exists."""
        ...

    async def change_storage(self, storage: Storage) -> None:
        """Replace what is remembered of a storage. Raises NoStorageError."""
        ...

    async def remove_storage(self, name: str) -> None:
        """Forget a storage and every grant of it; the data stays where it is. Raises NoStorageError."""
        ...

    async def grant_storage(self, name: str, group: str, *, is_default: bool = False) -> None:
        """Let a group use a storage, as its default one if so wished. Raises NoStorageError, NoGroupError."""
        ...

    async def revoke_storage(self, name: str, group: str) -> None:
        """Let a group use a storage no longer. Raises NoGroupError; harmless when it could not."""
        ...

    async def groups_of_storage(self, name: str) -> tuple[str, ...]:
        """Return the groups that may use a storage."""
        ...


class Area(Protocol):
    """What one person sees of a storage. Raises NoFileError, Refused for what cannot be, Unavailable."""

    async def list(self, path: str) -> tuple[Entry, ...]:
        """Return what is in a directory, by name. The area's own directory is there even before anything is in it."""
        ...

    async def entry(self, path: str) -> Entry:
        """Return what is known of a file or directory."""
        ...

    def read(self, path: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes of a file from `start` up to, not including, `end`."""
        ...

    async def write(self, path: str, content: AsyncIterator[bytes]) -> int:
        """Make or replace a file and return its size; one that breaks off leaves what was there before."""
        ...

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, or a directory with all that is in it when `recursive`."""
        ...


class Storages(Protocol):
    """The storages there are, and ways into them."""

    async def all(self) -> tuple[Storage, ...]:
        """Return all storages by name."""
        ...

    async def get(self, name: str) -> Storage:
        """Return one storage. Raises NoStorageError."""
        ...

    async def add(self, document: Mapping[str, Any]) -> Storage:
        """Remember a storage as a document describes it. Raises InvalidParametersError with every fault."""
        ...

    async def change(self, name: str, document: Mapping[str, Any]) -> Storage:
        """Replace a storage. When no credentials are given, those it has stay as long as the place stays the same."""
        ...

    async def remove(self, name: str) -> None:
        """Forget a storage; the data stays where it is."""
        ...

    async def grant(self, name: str, group: str, *, is_default: bool = False) -> None:
        """Let a group use a storage."""
        ...

    async def revoke(self, name: str, group: str) -> None:
        """Let a group use a storage no longer."""
        ...

    async def groups(self, name: str) -> tuple[str, ...]:
        """Return the groups that may use a storage."""
        ...

    async def check(self, name: str) -> Sequence[Step]:
        """Connect to a storage and try it; return what was tried, up to the first thing that failed."""
        ...

    async def area(self, name: str, user: str) -> Area:
        """Return what a user sees of a storage; it may not be there, which is found out by using it."""
        ...
