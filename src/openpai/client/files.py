"""Uploads and downloads of storages, streamed. After an interruption, a download resumes and an upload starts again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

import httpx

from openpai.client import retry
from openpai.client.calls.storages import file_path
from openpai.client.calls_core import API, finished, iterated
from openpai.client.connection import Connection
from openpai.protocol.errors import Unavailable

PIECE_BYTES: Final = 1 << 20
Progress = Callable[[int], object]
"""Receives the number of bytes sent since the last call; negative if some have to be sent again."""


def _unheard(_: int) -> None:
    """Report nothing."""


class StorageFiles:
    """The files of one storage."""

    def __init__(self, wire: Connection, storage: str) -> None:
        self._wire = wire
        self._storage = storage

    def upload(self, source: Path, path: str, progress: Progress = _unheard) -> int:
        """Upload a local file, replacing an existing one, and return its size.

        After an interruption it is sent again, and `progress` is set back. Raises Unavailable for a file that changes
        meanwhile; the storage keeps nothing of it.
        """
        url = API + file_path(self._storage, path)
        for attempt in count():
            with source.open("rb") as file:
                sending = _Sending(file, progress)
                try:
                    return int(finished(self._wire.put(url, sending.pieces(), sending.headers))["size"])
                except httpx.TransportError as error:
                    progress(-sending.sent)
                    if attempt == retry.TRIES - 1:
                        raise retry.unreachable(self._wire.url, error) from error
                    finished(self._wire.sleep(retry.pause_s(attempt)))
        raise AssertionError("the loop of tries never ends")

    def download(self, path: str, goal: Path, progress: Progress = _unheard) -> int:
        """Download a file and return its size; an incomplete local file is never left."""
        part = goal.with_name(f".{goal.name[:200]}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                # Write pieces as they arrive: data buffered for a larger one would be lost with the connection.
                for piece in self._pieces(path):
                    file.write(piece)
                    progress(len(piece))
                size = file.tell()
            part.replace(goal)
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        return size

    def read(self, path: str) -> bytes:
        """Return a small file as a whole."""
        return b"".join(self._pieces(path))

    def _pieces(self, path: str) -> Iterator[bytes]:
        return iterated(self._wire.fetch(API + file_path(self._storage, path)))


class AsyncStorageFiles:
    """The files of one storage, for the asynchronous client."""

    def __init__(self, wire: Connection, storage: str) -> None:
        self._wire = wire
        self._storage = storage

    async def write(self, path: str, content: AsyncIterable[bytes]) -> int:
        """Create or replace a file of the storage and return its size."""
        try:
            return int((await self._wire.put(API + file_path(self._storage, path), content))["size"])
        except httpx.TransportError as error:
            raise retry.unreachable(self._wire.url, error) from error

    def read(self, path: str) -> AsyncIterator[bytes]:
        """Yield the content of a file; after a broken connection it continues where it was."""
        return self._wire.fetch(API + file_path(self._storage, path))


class _Sending:
    """The content of an upload: as many bytes as the file had at first, or an error."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self.sent = 0
        self._file = file
        self._progress = progress
        self._before = self._state()
        # With an announced length, a file that is too large is refused before it is sent.
        self.headers = {"Content-Length": str(self._before[0]), "Content-Type": "application/octet-stream"}

    def pieces(self) -> Iterator[bytes]:
        """Yield the file, with the last piece only after a check that the file has not changed."""
        piece = self._file.read(PIECE_BYTES)
        while piece:
            after = self._file.read(PIECE_BYTES)
            if self.sent + len(piece) > self._before[0] or (not after and self._state() != self._before):
                raise self._changed()
            yield piece
            self.sent += len(piece)
            self._progress(len(piece))
            piece = after
        if self.sent != self._before[0]:
            raise self._changed()

    def _changed(self) -> Unavailable:
        return Unavailable(f"{self._file.name} changed while it was uploaded", "upload it again")

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns
