"""Uploads and downloads of storages, streamed. After an interruption, a download resumes and an upload starts again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

import httpx

from openpai.client import retry
from openpai.client.calls.storages import file_path
from openpai.client.calls_core import API
from openpai.client.transport import Transport
from openpai.protocol.errors import Unavailable

PIECE_BYTES: Final = 1 << 20
Progress = Callable[[int], object]
"""Receives the number of bytes sent since the last call; negative if some have to be sent again."""


def _unheard(_: int) -> None:
    """Report nothing."""


class StorageFiles:
    """The files of one storage."""

    def __init__(self, wire: Transport, storage: str) -> None:
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
                    with self._wire.stream(url, method="PUT", content=sending.pieces(), headers=sending.headers) as got:
                        got.read()
                        return int(got.json()["size"])
                except httpx.TransportError as error:
                    progress(-sending.sent)
                    if attempt == retry.TRIES - 1:
                        raise retry.unreachable(self._wire.url, error) from error
                    self._wire.sleep(retry.pause_s(attempt))
        raise AssertionError("the loop of tries never ends")

    def download(self, path: str, goal: Path, progress: Progress = _unheard) -> int:
        """Download a file and return its size; an incomplete local file is never left."""
        part = goal.with_name(f".{goal.name[:200]}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                size = self._fetch(path, file, progress)
            part.replace(goal)
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        return size

    def read(self, path: str) -> bytes:
        """Return a small file as a whole."""
        url = API + file_path(self._storage, path)
        with self._wire.stream(url) as response:
            return response.read()

    def _fetch(self, path: str, file: Any, progress: Progress) -> int:
        state = Fetched()
        while True:
            try:
                with self._wire.stream(API + file_path(self._storage, path), headers=state.headers()) as response:
                    state.check(response)
                    # Write pieces as they arrive: data buffered for a larger one would be lost with the connection.
                    for piece in response.iter_bytes():
                        file.write(piece)
                        state.size += len(piece)
                        progress(len(piece))
                    return state.size
            except httpx.TransportError as error:
                self._wire.sleep(state.pause_s(self._wire.url, error))


class Fetched:
    """The number of bytes received of a file, and its version."""

    def __init__(self) -> None:
        self.size = 0
        self._version: str | None = None
        self._size_before = 0
        self._tries = 0

    def headers(self) -> dict[str, str]:
        """Return the headers that request the rest."""
        return {"Range": f"bytes={self.size}-"} if self.size else {}

    def pause_s(self, url: str, error: httpx.TransportError) -> float:
        """Return how long to wait before requesting the rest; raise Unavailable after several tries without data."""
        self._tries = 1 if self.size > self._size_before else self._tries + 1
        self._size_before = self.size
        if self._tries >= retry.TRIES:
            raise retry.unreachable(url, error) from error
        return retry.pause_s(self._tries)

    def check(self, response: httpx.Response) -> None:
        """Raise Unavailable if the rest does not belong to the received part."""
        version = response.headers.get("ETag")
        is_rest = response.status_code == 206 or self.size == 0
        if not is_rest or (self.size and version != self._version):
            raise Unavailable("the file changed while it was downloaded", "download it again")
        self._version = version


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
