"""Storages: named places for data that jobs mount and users browse.

A storage is granted to groups. Its credentials are sealed when it is created and opened only to connect; no method
returns them. An area is the part of a storage that one user sees: paths in it are relative and never lead out of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openpai.ports.store import Sealed


@dataclass(frozen=True, slots=True)
class Storage:
    """A place for data."""

    name: str
    kind: str
    data: Mapping[str, Any]
    """Its location: path, server, bucket, container, ...; nothing secret."""
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
    """One step of the test of a storage, and its result in a sentence."""

    what: str
    is_ok: bool
    message: str = ""


class StorageStore(Protocol):
    """Stores storages and their grants."""

    async def storages(self) -> tuple[Storage, ...]:
        """Return all storages by name."""

    async def storage(self, name: str) -> Storage | None:
        """Return one storage."""

    async def add_storage(self, storage: Storage) -> None:
        """Add a storage. Raises ConflictStorageError for a name that exists."""

    async def change_storage(self, storage: Storage) -> None:
        """Replace a storage. Raises NoStorageError."""

    async def remove_storage(self, name: str) -> None:
        """Delete a storage and every grant of it; the data stays where it is. Raises NoStorageError."""

    async def grant_storage(self, name: str, group: str, *, is_default: bool = False) -> None:
        """Grant a storage to a group, as a default one on request. Raises NoStorageError, NoGroupError."""

    async def revoke_storage(self, name: str, group: str) -> None:
        """Revoke a grant. Raises NoGroupError; harmless if there is none."""

    async def groups_of_storage(self, name: str) -> tuple[str, ...]:
        """Return the groups that a storage is granted to."""


class Area(Protocol):
    """The part of a storage that one user sees. Raises NoFileError, Refused for impossible requests, Unavailable."""

    async def list(self, path: str) -> tuple[Entry, ...]:
        """Return the entries of a directory, by name. The root of an area exists even while it is empty."""

    async def entry(self, path: str) -> Entry:
        """Return size, time and kind of a file or directory."""

    def read(self, path: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes of a file from `start` up to, not including, `end`."""

    async def write(self, path: str, content: AsyncIterator[bytes]) -> int:
        """Create or replace a file and return its size; an interrupted upload leaves the old file."""

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, or a directory with all that is in it when `recursive`."""


class Storages(Protocol):
    """The storages, and access to them."""

    async def all(self) -> tuple[Storage, ...]:
        """Return all storages by name."""

    async def get(self, name: str) -> Storage:
        """Return one storage. Raises NoStorageError."""

    async def add(self, document: Mapping[str, Any]) -> Storage:
        """Add a storage that a document describes. Raises InvalidParametersError with every fault."""

    async def change(self, name: str, document: Mapping[str, Any]) -> Storage:
        """Replace a storage. Without credentials in the document, the old ones stay if the location is the same."""

    async def remove(self, name: str) -> None:
        """Delete a storage; the data stays where it is."""

    async def grant(self, name: str, group: str, *, is_default: bool = False) -> None:
        """Grant a storage to a group."""

    async def revoke(self, name: str, group: str) -> None:
        """Revoke a grant."""

    async def groups(self, name: str) -> tuple[str, ...]:
        """Return the groups that a storage is granted to."""

    async def check(self, name: str) -> Sequence[Step]:
        """Connect to a storage and test it; return the steps up to the first that failed."""

    async def area(self, name: str, user: str) -> Area:
        """Return the area of a user in a storage; whether it can be reached shows at the first use."""
