"""Storages: named places for data that jobs mount and people browse."""

from __future__ import annotations

from collections.abc import Mapping
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
