"""Reads a container's log as the kubelet sends it, and goes on after a break without losing or repeating a line.

The kubelet puts the time at which it was written before each line, to the nanosecond. A log that is read again can only
be asked for from a second on, so the times of the last lines are kept: a line with one of them, or with an earlier one,
was read before. Lines of the two output streams may be a little out of order, which is why one time is not enough. When
a node's clock is set back while nothing is read, lines may be repeated; none is lost.

The API does not say which of the two output streams a line came from, so all of them are in `stdout`. Lines of the
wrapper are in `runtime`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

RECENT: Final = 64
"""How many different times are kept."""
JUMP_NS: Final = 2_000_000_000
"""A line that is older than the newest by more than this shows that the node's clock was set back."""
LINE_BYTES: Final = 64 * 1024
"""The part of a line that is waited for: the beginning of a longer line is passed on at once."""
MARK: Final = b"[openpai-runtime] "
_STAMP: Final = re.compile(rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_STAMPS: Final = re.compile(_STAMP.pattern, re.MULTILINE)
_STAMP_BYTES: Final = 30
NO_STAMP: Final = -1


@dataclass(slots=True)
class Cursor:
    """What has been read of one log."""

    recent: dict[int, int] = field(default_factory=dict)
    """How many whole lines were read of each of the last times, in nanoseconds; the newest comes last."""
    open_at: int = NO_STAMP
    """The time of a line whose beginning was read; negative if there is none."""
    open_bytes: int = 0
    """How much of that line was passed on."""
    is_whole: bool = True
    """Whether `recent` has every line that was read, not only the last ones."""

    @property
    def since_s(self) -> int | None:
        """Return the second from which on the log is to be read; None for its beginning."""
        if self.is_whole:
            # So few lines that all are read again: one that was written out of order is among them.
            return None
        first = min(self.recent, default=self.open_at)
        return first // 1_000_000_000 if first >= 0 else None

    def note(self, at: int) -> None:
        """Record a whole line."""
        if self.recent and at < next(reversed(self.recent)) - JUMP_NS:
            # Otherwise all lines would look as if they were read before, until the clock has caught up.
            self.recent.clear()
            self.is_whole = False
        self.recent[at] = self.recent.pop(at, 0) + 1
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]
            self.is_whole = False

    def document(self) -> dict[str, Any]:
        """Return what is stored."""
        return {"recent": [*self.recent.items()], "open": [self.open_at, self.open_bytes], "whole": self.is_whole}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Cursor:
        """Return what was stored."""
        open_at, open_bytes = document["open"]
        recent = {int(at): int(count) for at, count in document["recent"]}
        return cls(recent, int(open_at), int(open_bytes), bool(document["whole"]))


@dataclass(slots=True)
class _Line:
    """A line that has begun. Without a stream it was read before."""

    at: int
    stream: str
    skip: int = 0
    """How much of it was passed on before the break."""


class LogLines:
    """Turns the bytes of one answer into pieces of streams, and moves the cursor on."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._known = dict(cursor.recent)
        self._oldest = NO_STAMP if cursor.is_whole else min(cursor.recent, default=NO_STAMP)
        self._newest = max(cursor.recent, default=NO_STAMP)
        self._is_again = bool(cursor.recent) or cursor.open_at >= 0
        self._has_matched = not cursor.recent
        self._is_refused = False
        self._rest = b""
        self._line: _Line | None = None
        self._second = (b"", 0)

    @property
    def may_have_gap(self) -> bool:
        """Return whether the log no longer has the lines that were read before: others may be gone with them."""
        return not self._has_matched and not self._is_again

    @property
    def has_found_nothing(self) -> bool:
        """Return whether lines were read before, and the log has neither one of them nor a later one.

        Not where the node answered with an error of its own, which is in the log itself.
        """
        return not self._has_matched and self._is_again and not self._is_refused

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the stream and the bytes of what is new."""
        data = self._rest + chunk
        start, has_tried = 0, False
        while True:
            if not has_tried and not self._is_again and self._line is None:
                # From the first line on that was not read before.
                has_tried = True
                last = data.rfind(b"\n") + 1
                if (plain := self._plain(data[start:last])) is not None:
                    yield "stdout", plain
                    start = last
            if (end := data.find(b"\n", start)) < 0:
                break
            yield from self._piece(data[start : end + 1])
            if self._line is not None:
                self._end(self._line)
            start = end + 1
        self._rest = data[start:]
        if len(self._rest) > LINE_BYTES:
            rest, self._rest = self._rest, b""
            yield from self._piece(rest)

    def _plain(self, data: bytes) -> bytes | None:
        """Return whole lines without their times, many times quicker than one by one; None if they need more care."""
        plain, stamps = _STAMPS.subn(b"", data)
        if not stamps or stamps != data.count(b"\n") or MARK in data or self._cursor.open_bytes:
            return None
        lines = data.split(b"\n")[:-1]
        first = max(len(lines) - RECENT, 0)
        self._cursor.is_whole &= not first
        # Lines of the same time are counted together.
        while first and lines[first][:_STAMP_BYTES] == lines[first - 1][:_STAMP_BYTES]:
            first -= 1
        for line in lines[first:]:
            self._cursor.note(self._split(line)[0])
        return plain

    def finish(self) -> Iterator[tuple[str, bytes]]:
        """Yield what came after the last end of a line, once the log has ended: a program may not write that end."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._piece(rest)

    def _piece(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        line = self._line
        if line is None:
            at, data = self._split(data)
            if at < 0:
                # Not from the log: the kubelet writes its own errors into the answer.
                self._is_refused = True
                yield "runtime", MARK + b"the node reports: " + data.rstrip(b"\n") + b"\n"
                return
            if self._was_read(at):
                self._line = _Line(at, "")
                return
            yield from self._abandoned(at)
            line = self._line = self._begin(at, "runtime" if data.startswith(MARK) else "stdout")
        if not line.stream:
            return
        skipped = min(line.skip, len(data))
        line.skip -= skipped
        if len(data) > skipped:
            self._cursor.open_bytes += len(data) - skipped
            yield from _apart(line.stream, data[skipped:])

    def _was_read(self, at: int) -> bool:
        if not self._is_again:
            return False
        if self._known.get(at, 0) > 0:
            self._known[at] -= 1
            self._has_matched = True
            return True
        if at > max(self._newest, self._cursor.open_at):
            self._is_again = False
        return at < self._oldest

    def _abandoned(self, at: int) -> Iterator[tuple[str, bytes]]:
        """Yield the end of a line whose rest was lost."""
        if self._cursor.open_bytes and self._cursor.open_at != at:
            yield "stdout", b"\n"

    def _begin(self, at: int, stream: str) -> _Line:
        cursor = self._cursor
        skip = cursor.open_bytes if cursor.open_at == at else 0
        cursor.open_at, cursor.open_bytes = at, skip
        return _Line(at, stream, skip)

    def _end(self, line: _Line) -> None:
        self._line = None
        if line.stream:
            self._cursor.note(line.at)
            self._cursor.open_at, self._cursor.open_bytes = NO_STAMP, 0

    def _split(self, line: bytes) -> tuple[int, bytes]:
        """Return a line's time, in nanoseconds, and the rest of it; a negative time for a line that has none."""
        found = _STAMP.match(line)
        if found is None:
            return NO_STAMP, line
        second, fraction, zone = found.groups()
        return self._seconds(second + zone) * 1_000_000_000 + int((fraction or b"").ljust(9, b"0")), line[found.end() :]

    def _seconds(self, text: bytes) -> int:
        # Most lines are from the same second as the line before.
        if self._second[0] != text:
            try:
                self._second = (text, int(datetime.fromisoformat(text.decode()).timestamp()))
            except ValueError:
                self._second = (text, 0)
        return self._second[1]


def stamp_of(line: bytes) -> int:
    """Return the time of a line, in nanoseconds; negative if it has none."""
    return LogLines(Cursor())._split(line)[0]  # noqa: SLF001


def _apart(stream: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a piece, and apart from it a note of the wrapper that follows output without the end of its line."""
    output, mark, note = data.partition(MARK) if stream == "stdout" else (data, b"", b"")
    if output:
        yield stream, output
    if mark:
        yield "runtime", mark + note
