"""Keeps the logs of a task attempt below a size: the first and the newest part stay, the middle goes.

The middle is given back to the file system as a hole, so the file does not get shorter, offsets keep their meaning, and
the program that writes notices nothing. Where the holes are is asked of the file system (`reading`), so nothing has to
be remembered, and a server that is restarted or only reads finds the same.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Final

from openpai.ports.logs import STREAMS
from openpai.system.disk_space import punch_hole

HEAD_PART: Final = 4
"""One part in so many of what a stream may keep is its beginning."""
_PAGE: Final = 4096
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def shares(sizes: Mapping[str, int], most: int) -> dict[str, int]:
    """Return how much each stream that is too large may keep, so that all together stay below `most`.

    Small streams are left alone, and large ones share what these leave. What is cut is cut to three quarters, so that
    a stream which grows and grows is not cut with every look.
    """
    if sum(sizes.values()) <= most:
        return {}
    left, cut = most, dict[str, int]()
    for number, (stream, size) in enumerate(sorted(sizes.items(), key=lambda pair: (pair[1], pair[0]))):
        fair = left // (len(sizes) - number)
        if size > fair:
            cut[stream] = fair * 3 // 4
        left -= min(size, fair)
    return cut


def hole(length: int, keep: int) -> tuple[int, int] | None:
    """Return from where to where a file of this length is cut out to keep so many bytes; None for nothing to cut."""
    head = keep // HEAD_PART
    start = -(-head // _PAGE) * _PAGE
    end = (length - (keep - head)) // _PAGE * _PAGE
    return (start, end) if end > start else None


def cap_logs(directory: str, most: int) -> int:
    """Cut the logs in a directory down when they take more than `most` bytes; return how much they take now.

    Raise OSError where the file system cannot do that.
    """
    sizes = {stream: _taken(f"{directory}/{stream}.log") for stream in STREAMS}
    cut = shares(sizes, most)
    for stream, keep in cut.items():
        with contextlib.suppress(FileNotFoundError):
            sizes[stream] = _cut(f"{directory}/{stream}.log", keep)
    return sum(sizes.values())


def _taken(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_blocks * 512 if _is_ours(found) else 0


def _is_ours(found: os.stat_result) -> bool:
    """Return whether it is a file with no other name: a task may have given a file of somebody else's this one."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _cut(path: str, keep: int) -> int:
    file = os.open(path, _FLAGS)
    try:
        found = os.fstat(file)
        if _is_ours(found) and (cut := hole(found.st_size, keep)) is not None:
            punch_hole(file, *cut)
        return os.fstat(file).st_blocks * 512
    finally:
        os.close(file)
