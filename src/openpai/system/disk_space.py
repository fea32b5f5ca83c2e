"""Space on a file system: how much is free, and how to cut a hole into a file or reserve space for it.

The two calls that Python lacks are made through the C library. They raise OSError on a file system that cannot do them.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any, Final, NamedTuple

_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2
_MB: Final = 1 << 20


class Space(NamedTuple):
    """The size of a file system, and its usable free space."""

    total: int
    free: int


def space_of(path: str) -> Space:
    """Return the space on the file system of `path`."""
    found = os.statvfs(path)
    # The space reserved for root does not count, even for root: the file system needs a part of it.
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def scarce_below(total: int) -> int:
    """Return the free space below which new jobs are refused and tasks: 5 % of the disk, from 8 MiB to 1 GiB."""
    return min(max(total // 20, 8 * _MB), 1024 * _MB, total // 4)


def punch_hole(file: int, start: int, end: int) -> None:
    """Free the space of bytes `start` to `end` of an open file; its length and the other bytes stay.

    Raise OSError if the file system cannot.
    """
    _fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, start, end - start)


def keep_room(file: int, start: int, size: int) -> None:
    """Reserve `size` bytes for an open file from `start` on, without changing its length.

    Raise OSError if there is no space, or the file system cannot.
    """
    _fallocate(file, _KEEP_SIZE, start, size)


def _fallocate(file: int, mode: int, start: int, size: int) -> None:
    function = _function()
    if function is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    while function(file, mode, start, size) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


@cache
def _function() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    # With a plain `fallocate` offsets have 32 bits on some machines.
    function = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        function.restype = ctypes.c_int
    return function
