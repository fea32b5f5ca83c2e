"""When the bytes of a log were written, as far as anybody knows: by looking at how long the files are, again and again.

A task writes into its log files itself, so nobody sees each line go by. Instead each look at a log that has grown adds
a line to the file `moments` beside it: the time, and how long each stream was by then. A line of the log was written
before the first look that found it, and after the one before. The file is as the task may have left it, so nothing in
it is trusted beyond what is shown to those who read the log.
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
"""Beyond this the moments of an attempt are written no more: a week of looks at a log that grows with each."""
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LINE: Final = re.compile(rb"^(\d{1,13})((?: \d{1,18}){%d})\n" % len(STREAMS), re.MULTILINE)


class Moments:
    """Writes down how long the logs of running attempts are."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...]] = {}

    def look(self, directories: Sequence[str], now_ms: int) -> None:
        """Look at the logs in these directories once; those of others are forgotten."""
        known = {}
        for directory in directories:
            sizes = tuple(size_of(f"{directory}/{stream}.log") for stream in STREAMS)
            if any(sizes) and sizes != self._known.get(directory):
                # What cannot be written now, as on a full disk, is known less exactly.
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
    """Return what was written down, oldest first; nothing where nothing was, or where it makes no sense."""
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
