"""Searches log files for lines with a text or an expression.

Expressions are RE2's, whose time grows with the length of the log only, whatever the expression and the log are. A
file is read in blocks instead of mapped: a task that cut its log short would end the server. Plain blocking functions,
meant for a thread; a call searches a part that takes some ten milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import re2

from openpai.logs.reading import read_piece
from openpai.ports.logs import LogHit, LogPattern
from openpai.protocol.errors import InvalidParameters

BLOCK_BYTES: Final = 4 << 20
LINE_MAX: Final = 64 * 1024
"""A longer line is searched in parts, and what is found across their border is missed."""
PATTERN_MAX: Final = 1000
SHOWN_BYTES: Final = 2048
_BEFORE_BYTES: Final = 512
"""How much of a long line is shown before what was found."""


def compiled(pattern: LogPattern) -> Any:
    """Return RE2's form of a pattern; raise InvalidParameters for one that it refuses."""
    if not pattern.text or len(pattern.text) > PATTERN_MAX:
        raise InvalidParameters(f"the text to search for must have 1 to {PATTERN_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    try:
        if not pattern.is_regex:
            expression = re2.escape(pattern.text)
        else:
            # By itself first: in front of an expression that ends a group, the flags would mean something else.
            re2.compile(pattern.text, options)
            expression = pattern.text
        return re2.compile(f"(?m{'i' if pattern.ignores_case else ''}){expression}".encode(), options)
    except re2.error as error:
        message = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise InvalidParameters(
            f"the expression cannot be searched for: {message}",
            "expressions are those of RE2, without back references and look-around; search for plain text instead",
        ) from None


@dataclass(frozen=True, slots=True)
class Part:
    """What was found in a part of a file, and where the rest of it begins."""

    hits: tuple[LogHit, ...]
    at: int
    size: int


def search_part(path: str, expression: Any, at: int, hits_max: int) -> Part:
    """Search whole lines of at most a block from `at`, a start of a line."""
    piece = read_piece(path, at, BLOCK_BYTES)
    if not piece.data:
        return Part((), max(piece.offset, piece.size), piece.size)
    data = piece.data
    end = len(data)
    if piece.offset + end < piece.size:
        # The last line goes on in the next block, unless it is too long to be held.
        end = data.rfind(b"\n", max(0, end - LINE_MAX)) + 1 or end
    hits: list[LogHit] = []
    begin = 0
    while begin < end and (found := expression.search(data, begin, end)) is not None:
        start = found.start()
        if start == end and begin < end and data[end - 1 : end] == b"\n":
            # After the last line end, where no line begins.
            begin = end
            break
        first, after = _around(data, start, end)
        hits.append(_hit(data, piece.offset, (first, start, after)))
        begin = data.find(b"\n", start, end) + 1 or end
        if len(hits) >= hits_max:
            break
    else:
        begin = end
    return Part(tuple(hits), piece.offset + begin, piece.size)


def _around(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return where the line of a place begins and ends, or the state of the progress bar that it is in."""
    low = max(0, start - LINE_MAX)
    first = max(data.rfind(b"\n", low, start), data.rfind(b"\r", low, start)) + 1 or low
    high = min(end, start + LINE_MAX)
    ends = [place for place in (data.find(b"\n", start, high), data.find(b"\r", start, high)) if place >= 0]
    return first, min(ends, default=high)


def _hit(data: bytes, offset: int, line: tuple[int, int, int]) -> LogHit:
    first, start, after = line
    if after - first > SHOWN_BYTES:
        first = max(first, start - _BEFORE_BYTES)
        # Not inside a character.
        while first < start and 0x80 <= data[first] < 0xC0:
            first += 1
    return LogHit(offset + first, data[first : min(after, first + SHOWN_BYTES)])
