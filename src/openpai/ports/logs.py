"""How the logs of a task attempt are read: during its life, after it, and after the server was restarted.

A log is bytes in named streams. Offsets count from the first byte the task ever wrote to that stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from openpai.lifecycle.model import AttemptKey

STREAMS: Final = ("stdout", "stderr", "runtime")
"""What the user's program wrote to either stream, and what the platform's own script has to say."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of one stream: `data` begins at `offset`; `size` is how long the stream is now.

    It begins behind the offset that was asked for where a part of a log that grew too large was cut out.
    """

    stream: str
    offset: int
    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Moment:
    """How long the streams of an attempt were at a time."""

    at_ms: int
    sizes: Mapping[str, int]


class LogReader(Protocol):
    """Reads logs. A stream nobody wrote to is empty; an attempt without logs raises Refused NoTaskLogError."""

    async def streams(self, key: AttemptKey) -> tuple[str, ...]:
        """Return the names of the streams this attempt has."""
        ...

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> LogChunk:
        """Return at most `limit` bytes from `offset`; a negative offset counts from the end."""
        ...

    async def moments(self, key: AttemptKey) -> tuple[Moment, ...]:
        """Return how the streams grew, as far as somebody looked, oldest first."""
        ...

    async def remove(self, keys: Sequence[AttemptKey]) -> None:
        """Let go of the logs of these attempts, which are over; harmless where there are none."""
        ...

    def follow(self, key: AttemptKey, streams: tuple[str, ...], offsets: dict[str, int]) -> AsyncIterator[LogChunk]:
        """Yield pieces as they are written, until the attempt has ended and every stream is read to its end.

        A piece begins behind the end of the one before where a part of the log was cut out.

        Holds no thread per reader; a reader hears of new bytes within a second.
        """
        ...
