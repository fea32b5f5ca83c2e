"""Lets the C library give memory back: by its defaults a server keeps what its busiest moment took."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""The numbers of glibc's `mallopt`."""
_LARGE_BYTES: Final = 64 * 1024
_FREE_BYTES: Final = 128 * 1024


def give_memory_back() -> bool:
    """Keep one heap for all threads, and return large blocks and the heap's end to the system at once.

    Call it before threads are started. Return False where the C library has no such settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Threads take turns under Python's lock anyway, and each heap of their own would hold what it once needed.
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _LARGE_BYTES), (_TRIM_THRESHOLD, _FREE_BYTES))
    return bool(sum(mallopt(name, value) for name, value in settings) == len(settings))


def trim() -> bool:
    """Return every free page of the heap to the system, also those between what is in use.

    A start and each burst of jobs leave ten megabytes of them. Return False where the C library cannot do that.
    """
    if not sys.platform.startswith("linux"):
        return False
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return malloc_trim is not None and bool(malloc_trim(0))
