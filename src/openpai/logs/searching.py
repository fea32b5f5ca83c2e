"""Searches log files for lines with a text or an expression.

Expressions are RE2's, whose time grows with the length of the log only, whatever the expression and the log are. A
file is read in blocks instead of mapped: a task that cut its log short would end the server. Plain blocking functions,
meant for threads: RE2 searches blocks in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import re2

from openpai.logs.needed_texts import needed_texts
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
TRIES_MAX: Final = 1000
"""In a block with more lines that could match, all of it is searched."""


@dataclass(frozen=True, slots=True)
class Search:
    """RE2's form of a pattern, and of texts of which each match contains one; none of them if none are known."""

    expression: Any
    needed: tuple[Any, ...] = ()


def compiled(pattern: LogPattern) -> Search:
    """Return RE2's form of a pattern; raise InvalidParameters for one that it refuses."""
    if not pattern.text or len(pattern.text) > PATTERN_MAX:
        raise InvalidParameters(f"the text to search for must have 1 to {PATTERN_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    flags = f"(?m{'i' if pattern.ignores_case else ''})"
    try:
        if not pattern.is_regex:
            return Search(re2.compile(f"{flags}{re2.escape(pattern.text)}".encode(), options))
        # By itself first: in front of an expression that ends a group, the flags would mean something else.
        re2.compile(pattern.text, options)
        texts = [re2.compile(f"{flags}{re2.escape(text)}".encode(), options) for text in needed_texts(pattern.text)]
        return Search(re2.compile(f"{flags}{pattern.text}".encode(), options), tuple(texts))
    except re2.error as error:
        message = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise InvalidParameters(
            f"the expression cannot be searched for: {message}",
            "expressions are those of RE2, without back references and look-around; search for plain text instead",
        ) from None


class Block(NamedTuple):
    """Whole lines of a file: the first `end` bytes of `data`, which begin at `offset`; the next begin at `after`."""

    offset: int
    data: bytes
    end: int
    after: int
    size: int


def read_block(path: str, at: int) -> Block:
    """Return the lines from `at`, a start of a line; none at the end of the file."""
    piece = read_piece(path, at, BLOCK_BYTES)
    if not piece.data:
        return Block(piece.offset, b"", 0, max(piece.offset, piece.size), piece.size)
    end = len(piece.data)
    if piece.offset + end < piece.size:
        # The last line goes on in the next block, unless it is too long to be held.
        end = piece.data.rfind(b"\n", max(0, end - LINE_MAX)) + 1 or end
    return Block(piece.offset, piece.data, end, piece.offset + end, piece.size)


def search_block(block: Block, search: Search, hits_max: int) -> list[tuple[LogHit, int]]:
    """Return the hits in a block, each with where the line after it begins."""
    data, end = block.data, block.end
    hits: list[tuple[LogHit, int]] = []
    begin = 0
    matches = _Matches(search, data, end)
    while begin < end and len(hits) < hits_max and (start := matches.next(begin)) is not None:
        if start == end and data[end - 1 : end] == b"\n":
            # After the last line end, where no line begins.
            break
        first, after = _around(data, start, end)
        begin = data.find(b"\n", start, end) + 1 or end
        hits.append((_hit(data, block.offset, (first, start, after)), block.offset + begin))
    return hits


class _Matches:
    """Finds the first match after a place in a block, by the lines that have one of the needed texts."""

    def __init__(self, search: Search, data: bytes, end: int) -> None:
        self._expression = search.expression
        self._needed = search.needed
        self._data = data
        self._end = end
        self._places = [-1] * len(search.needed)
        """Where each needed text is next."""
        self._tries = TRIES_MAX if search.needed else 0

    def next(self, begin: int) -> int | None:
        """Return where the next match begins; `begin` is the start of a line."""
        data, end = self._data, self._end
        while begin < end and self._tries:
            self._tries -= 1
            place = self._next_needed(begin)
            if place >= end:
                return None
            after = data.find(b"\n", place, end)
            after = end if after < 0 else after
            begin = max(begin, data.rfind(b"\n", begin, place) + 1)
            if (found := self._expression.search(data, begin, after)) is not None:
                return int(found.start())
            begin = after + 1
        found = self._expression.search(data, begin, end) if begin < end else None
        return None if found is None else int(found.start())

    def _next_needed(self, begin: int) -> int:
        for number, text in enumerate(self._needed):
            if self._places[number] < begin:
                found = text.search(self._data, begin, self._end)
                self._places[number] = self._end if found is None else found.start()
        return min(self._places)


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
