"""The interface of a kind of storage: a few blocking calls over paths that were checked before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from openpai.ports.storages import Entry

Names = Sequence[str]

PART_PREFIX: Final = ".pai-upload-"
"""The name prefix of an incomplete file where it needs a name; lists leave it out."""


class Reader(Protocol):
    """An open file."""

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on; none at the end."""

    def close(self) -> None:
        """Close it."""


class Writer(Protocol):
    """A file that is being written. It is not visible before it is committed."""

    def write(self, data: bytes) -> None:
        """Append to it."""

    def commit(self) -> None:
        """Move it to its place, where it replaces an older file."""

    def discard(self) -> None:
        """Remove it."""


class Driver(Protocol):
    """One folder of one storage. Raises OSErrors and the errors of its library."""

    def list(self, names: Names) -> Iterable[Entry]:
        """Return the entries of a directory."""

    def entry(self, names: Names) -> Entry:
        """Return the entry of a file or directory."""

    def reader(self, names: Names) -> Reader:
        """Open a file."""

    def writer(self, names: Names) -> Writer:
        """Begin a file; missing directories are created."""

    def remove(self, names: Names, *, recursive: bool) -> None:
        """Remove a file or an empty directory, or a whole tree when `recursive`."""


class Connection(Protocol):
    """An opened storage."""

    def probe(self) -> None:
        """Contact the storage; raise the library's error if it does not answer or refuses the credentials."""

    def driver(self, folder: str) -> Driver:
        """Return a driver for one folder of the storage, or for all of it if none is given."""

    def close(self) -> None:
        """Close it."""
