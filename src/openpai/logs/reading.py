"""Reads log files: their paths, their lengths, and their bytes at an offset.

Plain blocking functions, meant for a thread. A task may own the directory of its logs, so nothing in it is trusted: a
link, a pipe, a device or an unreadable file is no log, and only the name of an attempt becomes a path.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from openpai.lifecycle.model import AttemptKey
from openpai.ports.logs import ARRIVES_WITHIN_S, ARRIVING, PRINTED, STREAMS
from openpai.protocol.errors import Refused

CHUNK_BYTES: Final = 8 * 1024
"""Bytes to read at a time: few, because each of a thousand slow readers may hold several such pieces."""

HOLE_MIN: Final = 64 * 1024
"""Smaller holes in a file are read as zeros."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NO_LOG: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EACCES, errno.EPERM}
)


class Piece(NamedTuple):
    """Bytes at `offset` of a file of the length `size`.

    Where the file was cut, it begins after the requested offset.
    """

    offset: int
    data: bytes
    size: int


class Look(NamedTuple):
    """One file to check: `known` is its length at the last check."""

    path: str
    known: int


def is_arriving(directory: str) -> bool:
    """Return whether the end of an ended attempt's log is still brought here."""
    try:
        since_s = time.time() - os.lstat(f"{directory}/{ARRIVING}").st_mtime
    except OSError:
        return False
    return since_s < ARRIVES_WITHIN_S


def no_logs(key: AttemptKey) -> Refused:
    """Return the refusal for an attempt that has no logs."""
    return Refused(
        "NoTaskLogError",
        f"task {key.role}-{key.index} has no logs of its attempt {key.task_attempt} (job attempt {key.job_attempt})",
        "it has not started yet, or its logs were removed because of their age",
    )


def directory_of(root: Path, key: AttemptKey) -> str:
    """Return the directory of an attempt's logs; raise NoTaskLogError for an impossible key."""
    is_named = _NAME.fullmatch(key.job) and _NAME.fullmatch(key.role)
    if not is_named or min(key.job_attempt, key.index, key.task_attempt) < 0:
        raise no_logs(key)
    return str(root / key.path())


def path_of(directory: str, stream: str) -> str:
    """Return the file of a stream; raise NoTaskLogError for a stream that does not exist."""
    if stream not in STREAMS:
        raise Refused("NoTaskLogError", f"there is no log named {stream!r}", f"the logs are: {', '.join(STREAMS)}")
    return f"{directory}/{stream}.log"


def read_piece(path: str, offset: int, limit: int) -> Piece:
    """Return at most `limit` bytes from `offset`, counted from the end when negative. A missing file is empty."""
    try:
        file = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in _NO_LOG:
            return Piece(max(offset, 0), b"", 0)
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return Piece(max(offset, 0), b"", 0)
        start = max(found.st_size + offset, 0) if offset < 0 else offset
        if found.st_blocks * 512 < found.st_size:
            start, limit = _beyond_hole(file, start, limit, found.st_size)
        return Piece(start, os.pread(file, limit, start), found.st_size)
    finally:
        os.close(file)


def _beyond_hole(file: int, start: int, limit: int, size: int) -> tuple[int, int]:
    """Return the first offset that is not in a hole, and the number of bytes before the next hole."""
    if not 0 <= start < size:
        return start, limit
    try:
        data = os.lseek(file, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a file system without holes
            return start, limit
        # A hole up to the end, which a task can make with `truncate`.
        data = size
    if data - start < HOLE_MIN:
        # Not a cut: some file systems do not store zeros, or not yet what was just written.
        data = start
    elif data == size:
        return size, 0
    end = os.lseek(file, data, os.SEEK_HOLE)
    return data, min(limit, end - data) if end > data else limit


def size_of(path: str) -> int:
    """Return the length of a log; 0 if it is missing or not a plain file."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def sizes_of(root: Path, keys: Iterable[AttemptKey]) -> list[int]:
    """Return how many bytes the program of each attempt has written to its log; 0 for one without."""
    return [sum(_size_or_0(f"{root}/{key.path()}/{stream}.log") for stream in PRINTED) for key in keys]


def _size_or_0(path: str) -> int:
    try:
        return size_of(path)
    except OSError:
        # The log of one task says nothing about those of the others.
        return 0


def look(files: Iterable[Look], budget: int) -> list[Piece | None]:
    """Return for each file that changed its new length, with the bytes that are new while the budget lasts."""
    pieces: list[Piece | None] = []
    for path, known in files:
        size = size_of(path)
        grown = size - known
        if grown == 0:
            pieces.append(None)
        elif 0 < grown <= min(budget, CHUNK_BYTES):
            piece = read_piece(path, known, grown)
            budget -= len(piece.data)
            pieces.append(piece)
        else:
            pieces.append(Piece(size, b"", size))
    return pieces
