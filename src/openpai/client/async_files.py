"""Files into and out of storages for the asynchronous client, streamed."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import httpx

from openpai.client import retry
from openpai.client.async_transport import AsyncTransport
from openpai.client.calls.storages import file_path
from openpai.client.calls_core import API
from openpai.client.files import Fetched


class AsyncStorageFiles:
    """The files of one storage."""

    def __init__(self, wire: AsyncTransport, storage: str) -> None:
        self._wire = wire
        self._storage = storage

    async def write(self, path: str, content: AsyncIterable[bytes]) -> int:
        """Create or replace a file of the storage and return its size."""
        url = API + file_path(self._storage, path)
        try:
            async with self._wire.stream(url, method="PUT", content=content) as response:
                await response.aread()
                return int(response.json()["size"])
        except httpx.TransportError as error:
            raise retry.unreachable(self._wire.url, error) from error

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Yield the content of a file; after a broken connection it continues where it was."""
        state = Fetched()
        while True:
            try:
                async with self._wire.stream(API + file_path(self._storage, path), headers=state.headers()) as response:
                    state.check(response)
                    async for piece in response.aiter_bytes():
                        state.size += len(piece)
                        yield piece
                    return
            except httpx.TransportError as error:
                await self._wire.sleep(state.pause_s(self._wire.url, error))
