"""Estimates when the bytes of a log were written, from the lengths of the files over time.

A task writes its log files itself, so no program sees each line. Instead each check of a log that has grown adds a line
to the file `moments` beside it: the time, and the length of each stream. A line of the log was written between the last
check without it and the first check with it. The task may have changed the file, so its content is used only to show
times to readers of the log.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from openpai.logs.reading import size_of
from openpai.ports.logs import STREAMS, Growth

FILE: Final = "moments"
BYTES_MAX: Final = 2 << 20
"""The limit on the moments of an attempt: a week of checks of a log that grows with each."""
_SETTLED_NS: Final = 1_000_000_000
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DIGITS_MAX: Final = 18
_LATEST_MS: Final = 10**13
_AS_LIST: Final = bytes.maketrans(b" \n", b",,")
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_LINE: Final = re.compile(rb"^(\d{1,13})((?: \d{1,18}){%d})\n" % len(STREAMS), re.MULTILINE)


class Moments:
    """Records the lengths of the logs of running attempts."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...]] = {}
        self._empty: dict[str, int] = {}
        """When the directories changed last in which no stream had a file: none has until they change again."""

    def look(self, directories: Sequence[str], now_ms: int) -> None:
        """Check the logs in these directories once, and forget all others."""
        known: dict[str, tuple[int, ...]] = {}
        empty: dict[str, int] = {}
        for directory in directories:
            before = self._known.get(directory)
            if before is None:
                # Thousands of tasks may wait for their images, or print nothing: one look at each is enough.
                changed_ns = _changed_ns(directory)
                if changed_ns is None:
                    continue
                if self._empty.get(directory) == changed_ns or not _has_files(directory):
                    # A file that is created right after a change of the directory may leave its time as it is.
                    if now_ms * 1_000_000 - changed_ns >= _SETTLED_NS:
                        empty[directory] = changed_ns
                    continue
            sizes = tuple(size_of(f"{directory}/{stream}.log") for stream in STREAMS)
            if any(sizes) and sizes != before:
                # If the line cannot be written, as on a full disk, the times are less exact.
                with contextlib.suppress(OSError):
                    _add(directory, now_ms, sizes)
            known[directory] = sizes
        self._known, self._empty = known, empty


def _changed_ns(directory: str) -> int | None:
    """Return when a directory changed; None if there is none."""
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116  # called often
    except OSError:
        return None


def _has_files(directory: str) -> bool:
    # By name: a task may have created a million files beside these.
    return any(os.path.lexists(f"{directory}/{stream}.log") for stream in STREAMS)


def _add(directory: str, now_ms: int, sizes: Iterable[int]) -> None:
    file = os.open(f"{directory}/{FILE}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS, 0o644)
    try:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_size < BYTES_MAX:
            os.write(file, f"{now_ms} {' '.join(map(str, sizes))}\n".encode())
    finally:
        os.close(file)


def read_moments(directory: str) -> Growth:
    """Return the recorded lengths, oldest first; empty for a missing or invalid file."""
    try:
        file = os.open(f"{directory}/{FILE}", os.O_RDONLY | _FLAGS)
    except OSError:
        return Growth()
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return Growth()
        data = os.pread(file, BYTES_MAX + 4096, 0)
    finally:
        os.close(file)
    rows = _plain(data)
    if rows is None:
        found = ([int(one[1]), *map(int, one[2].split())] for one in _LINE.finditer(data))
        rows = [number for row in sorted(found) for number in row]
    width = 1 + len(STREAMS)
    return Growth(rows[::width], {stream: rows[at::width] for at, stream in enumerate(STREAMS, start=1)})


def _plain(data: bytes) -> list[int] | None:
    """Return all numbers of a file that only a server wrote, many times quicker than line by line; None for others."""
    if not data:
        return []
    width = 1 + len(STREAMS)
    try:
        numbers: list[int] = _NUMBERS.decode(b"[" + data[:-1].translate(_AS_LIST) + b"]")
    except msgspec.DecodeError:
        return None
    if len(numbers) != width * data.count(b"\n") or not data.endswith(b"\n"):
        return None
    times = numbers[::width]
    is_sound = min(numbers) >= 0 and max(numbers) < 10**_DIGITS_MAX and times[-1] < _LATEST_MS
    return numbers if is_sound and times == sorted(times) else None
