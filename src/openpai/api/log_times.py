"""Finds lines in logs: the last ones, those since a time, and the times of lines, from the recorded growth."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from openpai.api.sse import cut_out
from openpai.lifecycle.model import AttemptKey
from openpai.ports.logs import LogReader, Moment

CHUNK_BYTES: Final = 64 * 1024
_LINE_MAX: Final = 1 << 20
_BACK: Final = 64 * 1024


class Clock:
    """Maps offsets of one stream to the times when their bytes were written."""

    def __init__(self, moments: Sequence[Moment], stream: str, latest_ms: int) -> None:
        sizes: list[int] = []
        times: list[int] = []
        for moment in moments:
            size = moment.sizes.get(stream, 0)
            if size > (sizes[-1] if sizes else 0):
                sizes.append(size)
                times.append(moment.at_ms)
        self._sizes, self._times = sizes, times
        self._latest_ms = latest_ms

    def at_ms(self, offset: int) -> int:
        """Return the time by which all bytes before `offset` were written."""
        place = bisect_left(self._sizes, offset)
        return self._times[place] if place < len(self._times) else self._latest_ms

    def offset(self, since_ms: int) -> int:
        """Return the offset of the first byte written since a time, or one slightly before it."""
        place = bisect_right(self._times, since_ms)
        return self._sizes[place - 1] if place else 0


async def since(logs: LogReader, key: AttemptKey, stream: str, clock: Clock, since_ms: int) -> int:
    """Return the offset of the first line that may have been written since a time."""
    start = clock.offset(since_ms)
    if start == 0:
        return 0
    # The size may have been recorded in the middle of a line.
    before = max(0, start - _BACK)
    chunk = await logs.read(key, stream, before, start - before)
    return chunk.offset + chunk.data.rfind(b"\n") + 1 if chunk.data else start


async def stamped(
    logs: LogReader, key: AttemptKey, stream: str, part: tuple[int, int], clock: Clock
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a part of a stream, each after its time."""
    at, end = part
    rest, is_inside = b"", False
    while at < end:
        chunk = await logs.read(key, stream, at, min(CHUNK_BYTES, end - at))
        if chunk.offset > at:
            if rest:
                yield _stamp(clock, at, is_inside) + rest + b"\n"
            yield cut_out(min(chunk.offset, end) - at).encode()
            at, rest, is_inside = chunk.offset, b"", False
            continue
        if not chunk.data:
            break
        offset = at - len(rest)
        at += len(chunk.data)
        *lines, rest = (rest + chunk.data).split(b"\n")
        message = []
        for line in lines:
            offset += len(line) + 1
            message.append(_stamp(clock, offset, is_inside) + line + b"\n")
            is_inside = False
        if len(rest) > _LINE_MAX:
            message.append(_stamp(clock, at, is_inside) + rest)
            rest, is_inside = b"", True
        yield b"".join(message)
    if rest:
        yield _stamp(clock, at, is_inside) + rest


def _stamp(clock: Clock, offset: int, is_inside: bool) -> bytes:
    if is_inside:
        return b""
    at = datetime.fromtimestamp(clock.at_ms(offset) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z ").encode()


BLOCK_BYTES: Final = 64 * 1024
BYTES_MAX: Final = 8 * 1024 * 1024
"""How far back to search for lines: a program may write a gigabyte without a newline."""


class Tail(NamedTuple):
    """Offset and number of the last lines of a stream of `size` bytes."""

    start: int
    lines: int
    size: int


async def tail_of(logs: LogReader, key: AttemptKey, stream: str, lines: int) -> Tail:
    """Return where the last `lines` lines of a stream begin, at most 8 MiB before its end."""
    size = (await logs.read(key, stream, 0, 0)).size
    floor, at, found = max(0, size - BYTES_MAX), size, 0
    if not lines or not size:
        return Tail(size, 0, size)
    while at > floor:
        begin = max(at - BLOCK_BYTES, floor)
        chunk = await logs.read(key, stream, begin, at - begin)
        data = chunk.data[: max(at - chunk.offset, 0)]
        end = len(data)
        while (end := data.rfind(b"\n", 0, end)) >= 0:
            after = chunk.offset + end + 1
            # A newline at the very end ends the last line; no line begins after it.
            if after == size:
                continue
            found += 1
            if found == lines:
                return Tail(after, lines, size)
        if chunk.offset > begin or not data:
            # A part was cut out here, and with it the beginning of this line.
            return Tail(min(chunk.offset, at), found + 1, size)
        at = begin
    return Tail(floor, found + 1, size)
