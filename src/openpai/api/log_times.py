"""Finds lines in logs: the last ones, those since a time, and the times of lines, from the recorded growth."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from openpai.api.sse import cut_out
from openpai.lifecycle.model import AttemptKey
from openpai.ports.logs import Growth, LogReader
from openpai.protocol.shown_text import shown_line

CHUNK_BYTES: Final = 64 * 1024
_LINE_MAX: Final = 1 << 20
_BACK: Final = 64 * 1024


class Clock:
    """Maps offsets of one stream to the times when their bytes were written."""

    def __init__(self, growth: Growth, stream: str, latest_ms: int) -> None:
        sizes: list[int] = []
        times: list[int] = []
        known = 0
        for at_ms, size in zip(growth.at_ms, growth.sizes.get(stream, ()), strict=False):
            if size > known:
                sizes.append(size)
                times.append(at_ms)
                known = size
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


class Line(NamedTuple):
    """A line with its end, or a part of a very long line, and when it was written."""

    at_ms: int
    data: bytes
    is_begin: bool = True


async def timed_lines(
    logs: LogReader, key: AttemptKey, stream: str, part: tuple[int, int], clock: Clock
) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of a part of a stream with their times, as many at once as are read at once."""
    at, end = part
    rest, is_inside = b"", False
    while at < end:
        chunk = await logs.read(key, stream, at, min(CHUNK_BYTES, end - at))
        if chunk.offset > at:
            lines = [Line(clock.at_ms(at), rest + b"\n", not is_inside)] if rest else []
            yield [*lines, Line(clock.at_ms(at), cut_out(min(chunk.offset, end) - at).encode(), is_begin=False)]
            at, rest, is_inside = chunk.offset, b"", False
            continue
        if not chunk.data:
            break
        offset = at - len(rest)
        at += len(chunk.data)
        *whole, rest = (rest + chunk.data).split(b"\n")
        found = []
        for line in whole:
            offset += len(line) + 1
            found.append(Line(clock.at_ms(offset), line + b"\n", not is_inside))
            is_inside = False
        if len(rest) > _LINE_MAX:
            found.append(Line(clock.at_ms(at), rest, not is_inside))
            rest, is_inside = b"", True
        yield found
    if rest:
        yield [Line(clock.at_ms(at), rest, not is_inside)]


async def merged(streams: Sequence[AsyncGenerator[list[Line], None]]) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of several streams in the order of their times; of the same time, the first stream's first."""
    heads: list[deque[Line]] = [deque() for _ in streams]
    is_open = [True] * len(streams)
    while True:
        for number, head in enumerate(heads):
            while is_open[number] and not head:
                lines = await anext(streams[number], None)
                is_open[number] = lines is not None
                head.extend(lines or ())
        if not any(heads):
            return
        yield _earliest(heads, is_open)


def _earliest(heads: Sequence[deque[Line]], is_open: Sequence[bool]) -> list[Line]:
    """Take the earliest lines while every stream that goes on has one."""
    taken: list[Line] = []
    while any(heads) and all(head or not open_ for head, open_ in zip(heads, is_open, strict=True)):
        head = min(filter(None, heads), key=lambda lines: lines[0].at_ms)
        taken.append(head.popleft())
        # The parts of one line stay together.
        while head and not head[0].is_begin:
            taken.append(head.popleft())
        if not taken[-1].data.endswith(b"\n") and (head or any(heads) or any(is_open)):
            taken[-1] = taken[-1]._replace(data=taken[-1].data + b"\n")
    return taken


def stamped(lines: Sequence[Line], *, is_plain: bool) -> bytes:
    """Return lines after their times; plain ones without control sequences."""
    message: list[bytes] = []
    at_ms, stamp = -1, b""
    for line in lines:
        if line.at_ms != at_ms:
            at_ms, stamp = line.at_ms, _stamp(line.at_ms)
        if line.is_begin:
            message.append(stamp)
        message.append(_plain(line.data) if is_plain else line.data)
    return b"".join(message)


def _plain(line: bytes) -> bytes:
    text = line.decode("utf-8", "replace")
    return (shown_line(text[:-1]) + "\n" if text.endswith("\n") else shown_line(text)).encode()


def _stamp(at_ms: int) -> bytes:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
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
