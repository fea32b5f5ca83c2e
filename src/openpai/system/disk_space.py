"""Room on a file system: how much there is, how to give back the middle of a file, and how to keep some for later.

The two calls that Python lacks are made through the C library. A file system that cannot do them says so with an
OSError, which callers take as "not here".
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any, Final, NamedTuple

_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2


class Space(NamedTuple):
    """How large a file system is, and how much of it we may still fill."""

    total: int
    free: int


def space_of(path: str) -> Space:
    """Return the room on the file system that holds `path`."""
    found = os.statvfs(path)
    # What is kept for root is no room to plan with, even for root: a part of it the file system needs itself.
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def punch_hole(file: int, start: int, end: int) -> None:
    """Give the room of bytes `start` to `end` of an open file back; its length and the other bytes stay.

    Raise OSError where the file system cannot.
    """
    _fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, start, end - start)


def keep_room(file: int, start: int, size: int) -> None:
    """Take `size` bytes of room for an open file from `start` on without making it longer; no other file gets it.

    Raise OSError where there is no room, or the file system cannot.
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
