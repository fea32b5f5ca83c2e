"""Files into and out of storages, streamed; a download that broke off is taken up where it was."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from openpai.client import trying
from openpai.client.asking import API
from openpai.client.calls.storages import file_path
from openpai.client.transport import Transport
from openpai.protocol.errors import Unavailable

PIECE_BYTES: Final = 1 << 20
Progress = Callable[[int], object]
"""Is told how many more bytes went through."""


def _unheard(_: int) -> None:
    """Tell nobody."""


class StorageFiles:
    """The files of one storage."""

    def __init__(self, wire: Transport, storage: str) -> None:
        self._wire = wire
        self._storage = storage

    def upload(self, source: Path, path: str, progress: Progress = _unheard) -> int:
        """Put a file of this machine into the storage, in the place of what is there, and return its size."""
        url = API + file_path(self._storage, path)
        size = source.stat().st_size
        # With its length announced, one that is too large is refused before it is sent.
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        try:
            with self._wire.stream(url, method="PUT", content=_pieces(source, progress), headers=headers) as response:
                response.read()
                return int(response.json()["size"])
        except httpx.TransportError as error:
            raise trying.unreachable(self._wire.url, error) from error

    def download(self, path: str, goal: Path, progress: Progress = _unheard) -> int:
        """Make a file of this machine from one of the storage and return its size; half of one is never left."""
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
                    # As it comes: what waits to fill a larger piece is lost when the line breaks.
                    for piece in response.iter_bytes():
                        file.write(piece)
                        state.size += len(piece)
                        progress(len(piece))
                    return state.size
            except httpx.TransportError as error:
                self._wire.sleep(state.pause_s(self._wire.url, error))


class Fetched:
    """How much of a file has come, and which version of it that is."""

    def __init__(self) -> None:
        self.size = 0
        self._version: str | None = None
        self._size_before = 0
        self._tries = 0

    def headers(self) -> dict[str, str]:
        """Return what asks for the rest."""
        return {"Range": f"bytes={self.size}-"} if self.size else {}

    def pause_s(self, url: str, error: httpx.TransportError) -> float:
        """Return how long to wait before asking for the rest; raise Unavailable after tries that brought nothing."""
        self._tries = 1 if self.size > self._size_before else self._tries + 1
        self._size_before = self.size
        if self._tries >= trying.TRIES:
            raise trying.unreachable(url, error) from error
        return trying.pause_s(self._tries)

    def check(self, response: httpx.Response) -> None:
        """Raise Unavailable when the rest does not belong to what has come."""
        version = response.headers.get("ETag")
        is_rest = response.status_code == 206 or self.size == 0
        if not is_rest or (self.size and version != self._version):
            raise Unavailable("the file changed while it was downloaded", "download it again")
        self._version = version


def _pieces(source: Path, progress: Progress) -> Iterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
            progress(len(piece))
