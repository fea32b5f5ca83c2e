"""Removes the directories of forgotten attempts without keeping anybody waiting.

A directory leaves the tree at once, by renaming; its contents, which may be large, go some time later, many together.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final

from openpai.backends.host.directory import TaskDirectory, empty_trash

_COLLECTING_S: Final = 0.5


class Trash:
    """Takes directories and removes them in the background. What is left when it closes goes at the next opening."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._prefix = secrets.token_hex(8)
        self._taken = 0
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._task = asyncio.create_task(self._forever(), name="empty the trash")

    def take(self, directory: TaskDirectory) -> None:
        """Make a directory vanish from the tree now and from the disk soon."""
        self._taken += 1
        directory.discard(f"{self._prefix}-{self._taken}")
        self._wanted.set()

    async def close(self) -> None:
        """Stop removing."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _forever(self) -> None:
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_COLLECTING_S)
            self._wanted.clear()
            await asyncio.to_thread(empty_trash, self._root)
