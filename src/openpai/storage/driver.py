"""What each kind of storage must bring along: a handful of blocking calls over paths that were checked before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from openpai.ports.storages import Entry

Names = Sequence[str]

PART_PREFIX: Final = ".pai-upload-"
"""How a file in the making is called where it needs a name; lists leave it out."""


class Reader(Protocol):
    """An open file."""

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on; none at the end."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Writer(Protocol):
    """A file in the making. It is not visible before it is committed."""

    def write(self, data: bytes) -> None:
        """Append to it."""
        ...

    def commit(self) -> None:
        """Put it in its place, where it replaces an older file."""
        ...

    def discard(self) -> None:
        """Remove it."""
        ...


class Driver(Protocol):
    """One folder of one storage. Raises OSErrors and what its library raises."""

    def list(self, names: Names) -> Iterable[Entry]:
        """Return what is in a directory."""
        ...

    def entry(self, names: Names) -> Entry:
        """Return what is known of a file or directory."""
        ...

    def reader(self, names: Names) -> Reader:
        """Open a file."""
        ...

    def writer(self, names: Names) -> Writer:
        """Begin a file; directories on the way are made."""
        ...

    def remove(self, names: Names, *, recursive: bool) -> None:
        """Remove a file or an empty directory, or a whole tree when `recursive`."""
        ...


class Connection(Protocol):
    """An opened storage."""

    def probe(self) -> None:
        """Contact the storage; raise the library's error when it is absent or refuses the credentials."""
        ...

    def driver(self, folder: str) -> Driver:
        """Return what sees one folder of the storage and nothing beside it, or all of it for no folder."""
        ...

    def close(self) -> None:
        """Close it."""
        ...
