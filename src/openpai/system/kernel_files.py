"""Reads files of the kernel, in /proc and of cgroups, and other small files, in pieces.

A buffer of the most that may be read would be mapped and unmapped by each call, as large blocks are (`allocator`).
"""

from __future__ import annotations

import os
from typing import Final

_PIECE_BYTES: Final = 32 * 1024
_MOST_BYTES: Final = 1 << 20


def read_up_to(file: int, most: int = _MOST_BYTES) -> bytes:
    """Return what an open file has from here on, at most that many bytes of it. Raise OSError if it cannot be read."""
    data = piece = os.read(file, min(most, _PIECE_BYTES))
    # The kernel writes whole lines: a piece that is not nearly full is the last one.
    while len(piece) > _PIECE_BYTES // 2 and len(data) < most:
        piece = os.read(file, min(most - len(data), _PIECE_BYTES))
        data += piece
    return data


def read_text(path: str) -> str:
    """Return the text of a file of the kernel; empty if there is none, because another process may remove a cgroup."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        # The files of a task with a hundred thousand processes are longer; the rest is not counted.
        return read_up_to(file).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)


def processes_in(cgroup: str) -> list[int]:
    """Return the numbers of the processes in a cgroup; none if there is no such cgroup.

    A process outside this PID namespace is listed as 0, and cannot be seen or killed from here.
    """
    return [int(line) for line in read_text(f"{cgroup}/cgroup.procs").split() if line != "0"]
