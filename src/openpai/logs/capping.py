"""Limits the size of a task attempt's logs: the first and the newest part stay, the middle is cut out.

The middle becomes a hole in the file, so the file keeps its length, offsets keep their meaning, and the program that
writes notices nothing. The file system knows the holes (`reading`), so a restarted server, or one that only reads,
finds them too.
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
"""The first part gets this fraction (a quarter) of the size that a stream may keep."""
_PAGE: Final = 4096
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def shares(sizes: Mapping[str, int], most: int) -> dict[str, int]:
    """Return how much each stream that is too large may keep, so that all together stay below `most`.

    Small streams stay whole, and large ones share the rest. They are cut to three quarters of it, so that a growing
    stream is not cut at every check.
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
    """Return start and end of the part to cut out of a file to keep `keep` bytes; None if there is nothing to cut."""
    head = keep // HEAD_PART
    start = -(-head // _PAGE) * _PAGE
    end = (length - (keep - head)) // _PAGE * _PAGE
    return (start, end) if end > start else None


def cap_logs(directory: str, most: int) -> int:
    """Cut the logs in a directory if they take more than `most` bytes; return how much they take now.

    Raise OSError if the file system cannot do that.
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
    """Return whether it is a file with no other name: a task may have linked the file of another user."""
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
