"""Reading the logs of a task attempt: while it runs, after its end, and after a restart of the server.

A log is bytes in named streams. Offsets count from the first byte the task ever wrote to that stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, overload

from openpai.lifecycle.model import AttemptKey

STREAMS: Final = ("stdout", "stderr", "runtime")
"""The two output streams of the user's program, and the messages of the platform's wrapper."""

PRINTED: Final = STREAMS[:2]
"""Those that the user's program writes."""

ARRIVING: Final = "arriving"
"""The file that is beside the streams of an attempt that has ended while the end of its log is still on its way."""
ARRIVES_WITHIN_S: Final = 30.0
"""How long it counts: the server that brought the log may be gone, and no other may have found it."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of one stream: `data` begins at `offset`; `size` is how long the stream is now.

    Where a part of an oversized log was cut out, it begins after the requested offset.
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


class Growth(Sequence[Moment]):
    """How long the streams of an attempt were over time, oldest first, by columns: a week has many thousand times."""

    def __init__(self, at_ms: Sequence[int] = (), sizes: Mapping[str, Sequence[int]] | None = None) -> None:
        """`sizes` has a column for each stream, as long as `at_ms`."""
        self.at_ms = at_ms
        self.sizes: Mapping[str, Sequence[int]] = sizes or {}

    def __len__(self) -> int:
        """Return the number of times."""
        return len(self.at_ms)

    @overload
    def __getitem__(self, at: int) -> Moment: ...
    @overload
    def __getitem__(self, at: slice) -> Growth: ...
    def __getitem__(self, at: int | slice) -> Moment | Growth:
        """Return one time with the length of each stream, or a part."""
        if isinstance(at, slice):
            return Growth(self.at_ms[at], {stream: sizes[at] for stream, sizes in self.sizes.items()})
        return Moment(self.at_ms[at], {stream: sizes[at] for stream, sizes in self.sizes.items()})


@dataclass(frozen=True, slots=True)
class LogPattern:
    """What to search for: a text, or an expression of RE2 that is tried on each line."""

    text: str
    is_regex: bool = False
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class LogHit:
    """A line that was found, or the part of it between two carriage returns; `data` is cut around what was found."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Searched:
    """The hits of a search so far, and where it goes on: `at` is the stream's `size` once all of it was searched."""

    hits: tuple[LogHit, ...]
    at: int
    size: int


class LogReader(Protocol):
    """Reads logs. A stream without output is empty; an attempt without logs raises Refused NoTaskLogError."""

    async def arrived(self, key: AttemptKey) -> None:
        """Return once the log of an attempt that has ended is all there, or will not be within some seconds."""

    async def streams(self, key: AttemptKey) -> tuple[str, ...]:
        """Return the names of the streams this attempt has."""

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> LogChunk:
        """Return at most `limit` bytes, never over 1 MiB, from `offset`; a negative one counts from the end."""

    async def sizes(self, keys: Sequence[AttemptKey]) -> Sequence[int]:
        """Return how many bytes the program of each attempt has written; 0 for one without logs."""

    async def search(
        self, key: AttemptKey, stream: str, pattern: LogPattern, offset: int, *, hits_max: int, bytes_max: int
    ) -> Searched:
        """Return the hits from `offset`, a start of a line, until there are so many or so many bytes were searched.

        Raises InvalidParameters for a pattern that is not one of RE2.
        """

    async def moments(self, key: AttemptKey) -> Growth:
        """Return the measured sizes of the streams over time, oldest first."""

    async def remove(self, keys: Sequence[AttemptKey]) -> None:
        """Delete the logs of these ended attempts; harmless if there are none."""

    def follow(self, key: AttemptKey, streams: tuple[str, ...], offsets: dict[str, int]) -> AsyncIterator[LogChunk]:
        """Yield pieces as they are written, until the attempt has ended and every stream is read to its end.

        Where a part of the log was cut out, a piece begins after the end of the one before. Readers hold no thread,
        and get new bytes within a second.
        """
