"""Finds the last lines of a log from its end backwards, so that a log of a gigabyte costs no more than a short one."""

from __future__ import annotations

from typing import Final, NamedTuple

from openpai.lifecycle.model import AttemptKey
from openpai.ports.logs import LogReader

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
