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

from openpai.logs.reading import size_of
from openpai.ports.logs import STREAMS, Moment

FILE: Final = "moments"
BYTES_MAX: Final = 2 << 20
"""The limit on the moments of an attempt: a week of checks of a log that grows with each."""
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LINE: Final = re.compile(rb"^(\d{1,13})((?: \d{1,18}){%d})\n" % len(STREAMS), re.MULTILINE)


class Moments:
    """Records the lengths of the logs of running attempts."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...]] = {}

    def look(self, directories: Sequence[str], now_ms: int) -> None:
        """Check the logs in these directories once, and forget all others."""
        known = {}
        for directory in directories:
            sizes = tuple(size_of(f"{directory}/{stream}.log") for stream in STREAMS)
            if any(sizes) and sizes != self._known.get(directory):
                # If the line cannot be written, as on a full disk, the times are less exact.
                with contextlib.suppress(OSError):
                    _add(directory, now_ms, sizes)
            known[directory] = sizes
        self._known = known


def _add(directory: str, now_ms: int, sizes: Iterable[int]) -> None:
    file = os.open(f"{directory}/{FILE}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS, 0o644)
    try:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_size < BYTES_MAX:
            os.write(file, f"{now_ms} {' '.join(map(str, sizes))}\n".encode())
    finally:
        os.close(file)


def read_moments(directory: str) -> tuple[Moment, ...]:
    """Return the recorded lengths, oldest first; empty for a missing or invalid file."""
    try:
        file = os.open(f"{directory}/{FILE}", os.O_RDONLY | _FLAGS)
    except OSError:
        return ()
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return ()
        data = os.pread(file, BYTES_MAX + 4096, 0)
    finally:
        os.close(file)
    found = [
        Moment(int(one[1]), dict(zip(STREAMS, map(int, one[2].split()), strict=True))) for one in _LINE.finditer(data)
    ]
    return tuple(sorted(found, key=lambda moment: moment.at_ms))
