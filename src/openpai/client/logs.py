"""Logs of task attempts for programs: the end of a log, a whole log, or each piece as it is written.

Following survives restarts of the server and broken connections: it continues where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx

from openpai.client.following import Follower
from openpai.client.log_locations import LogPlaces
from openpai.client.model.logs import LogPiece
from openpai.client.transport import Transport
from openpai.protocol.errors import Unavailable

STREAMS: Final = ("all", "stdout", "stderr", "runtime")


@dataclass(frozen=True, slots=True)
class AttemptLogs:
    """The logs of one task attempt."""

    transport: Transport
    places: LogPlaces

    def text(
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
        return self.transport.send(call).text

    def tail(self, stream: str = "all") -> str:
        """Return the last 16 KiB of a stream."""
        return self.transport.send(self.places.tail(stream)).text

    def follow(self, stream: str = "all") -> Iterator[LogPiece]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        # Few commands follow a log; the others do not load this.
        from httpx_sse import EventSource

        follower = Follower(self.transport.url, self.places.uri(stream))
        while True:
            try:
                with self.transport.stream(**follower.request()) as response:
                    for event in EventSource(response).iter_sse():
                        if (piece := follower.take(event)) is not None:
                            yield piece
                        if follower.is_over:
                            return
                pause_s = follower.ended_early()
            except (httpx.TransportError, Unavailable) as error:
                pause_s = follower.failed(error)
            self.transport.sleep(pause_s)
