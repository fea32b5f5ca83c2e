"""Prevents two servers from using one root at once. The lock ends with the server, however that ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from openpai.backends.host.directory import TRASH
from openpai.protocol.errors import Unavailable

_TRIES: Final = 100
_PAUSE_S: Final = 0.02


@contextlib.asynccontextmanager
async def lock(root: Path, logs_root: Path) -> AsyncIterator[None]:
    """Create both directories and lock `root` in this context. Raise Unavailable, naming the process that holds it."""
    _make(root / TRASH, logs_root)
    file = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not await _is_locked(file):
            holder = os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
            raise Unavailable(
                f"the tasks in {root} belong to another server that is running (process {holder})",
                "stop that server, or choose another data directory",
            )
        with contextlib.suppress(OSError):
            # Used only in the message above; a full disk must not prevent the start.
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _make(*directories: Path) -> None:
    for directory in directories:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


async def _is_locked(file: int) -> bool:
    # Tasks do not inherit the lock, but a task that a killed server was starting holds it until its shell runs.
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        await asyncio.sleep(_PAUSE_S)
    return False
