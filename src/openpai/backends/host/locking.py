"""Keeps two servers from using one root at once. The lock goes with the server, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from openpai.protocol.errors import Unavailable


@contextlib.contextmanager
def lock(root: Path) -> Iterator[None]:
    """Hold the root while the context lasts. Raise Unavailable, naming the holder, when somebody else has it."""
    # Tasks do not inherit the descriptor, so a task that outlives its server does not hold the lock.
    file = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            raise Unavailable(
                f"the tasks in {root} belong to another server that is running (process {holder})",
                "stop that server, or choose another data directory",
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)
