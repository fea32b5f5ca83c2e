"""Logs of task attempts as an asynchronous program reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from openpai.client.async_transport import AsyncTransport
from openpai.client.following import Follower
from openpai.client.log_locations import LogPlaces
from openpai.client.model.logs import LogPiece
from openpai.protocol.errors import Unavailable


@dataclass(frozen=True, slots=True)
class AsyncAttemptLogs:
    """The logs of one task attempt."""

    transport: AsyncTransport
    places: LogPlaces

    async def text(
        self,
        stream: str = "all",
        *,
        lines: int | None = None,
        timestamps: bool = False,
        since_ms: int | None = None,
    ) -> str:
        """Return all that is kept of a stream, or its last `lines` lines, at most 8 MiB of them.

        With `timestamps` each line follows the time at which it was seen; `since_ms` skips older lines.
        """
        call = self.places.text(stream, lines, timestamps=timestamps, since_ms=since_ms)
        return (await self.transport.send(call)).text

    async def tail(self, stream: str = "all") -> str:
        """Return the last 16 KiB of a stream."""
        return (await self.transport.send(self.places.tail(stream))).text

    async def follow(self, stream: str = "all") -> AsyncIterator[LogPiece]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        from httpx_sse import EventSource

        follower = Follower(self.transport.url, self.places.uri(stream))
        while True:
            try:
                async with (
                    self.transport.stream(**follower.request()) as response,
                    aclosing(EventSource(response).aiter_sse()) as events,
                ):
                    async for event in events:
                        if (piece := follower.take(event)) is not None:
                            yield piece
                        if follower.is_over:
                            return
                pause_s = follower.ended_early()
            except (httpx.TransportError, Unavailable) as error:
                pause_s = follower.failed(error)
            await self.transport.sleep(pause_s)
