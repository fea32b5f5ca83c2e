"""Logs of task attempts for programs: the end of a log, a whole log, or each piece as it is written.

Following survives restarts of the server and broken connections: it continues where it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from openpai.client.calls_core import finished, iterated
from openpai.client.connection import Connection
from openpai.client.log_locations import LogPlaces
from openpai.client.model.logs import LogPiece

STREAMS: Final = ("all", "stdout", "stderr", "runtime")


@dataclass(frozen=True, slots=True)
class AsyncAttemptLogs:
    """The logs of one task attempt, for the asynchronous client."""

    wire: Connection
    places: LogPlaces

    async def text(
        self, stream: str = "all", *, lines: int | None = None, timestamps: bool = False, since_ms: int | None = None
    ) -> str:
        """Return all that is kept of a stream, or its last `lines` lines, at most 8 MiB of them.

        With `timestamps` each line follows the time at which it was seen; `since_ms` skips older lines.
        """
        return await self.wire.ask(self.places.text(stream, lines, timestamps=timestamps, since_ms=since_ms))

    async def tail(self, stream: str = "all") -> str:
        """Return the last 16 KiB of a stream."""
        return await self.wire.ask(self.places.tail(stream))

    def follow(self, stream: str = "all") -> AsyncIterator[LogPiece]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        return self.wire.follow(self.places, stream)


@dataclass(frozen=True, slots=True)
class AttemptLogs:
    """The logs of one task attempt."""

    wire: Connection
    places: LogPlaces

    def text(
        self, stream: str = "all", *, lines: int | None = None, timestamps: bool = False, since_ms: int | None = None
    ) -> str:
        """Return all that is kept of a stream, or a part of it, as `AsyncAttemptLogs.text` does."""
        return finished(self.wire.ask(self.places.text(stream, lines, timestamps=timestamps, since_ms=since_ms)))

    def tail(self, stream: str = "all") -> str:
        """Return the last 16 KiB of a stream."""
        return finished(self.wire.ask(self.places.tail(stream)))

    def follow(self, stream: str = "all") -> Iterator[LogPiece]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        return iterated(self.wire.follow(self.places, stream))
