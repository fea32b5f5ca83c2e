"""Removes the directories of forgotten attempts without keeping anybody waiting.

A directory leaves the tree at once, by renaming; its contents, which may be large, go some time later, many together.
Directories in which a task left nothing may be kept for the next tasks: making and removing files is a large part of
what a short task costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from pathlib import Path
from typing import Final

from openpai.backends.host.directory import SPARE, TRASH, TaskDirectory, empty_trash, make_directory

_COLLECTING_S: Final = 0.5


class Trash:
    """Takes directories and removes them in the background. What is left when it closes goes at the next opening."""

    def __init__(self, root: str, spares_max: int = 0) -> None:
        self._root = root
        self._spares_max = spares_max
        self._spares: list[str] = []
        for directory in (TRASH, SPARE):
            make_directory(f"{root}/{directory}")
        # Nobody knows in what state an earlier server left these.
        for left in Path(root, SPARE).iterdir():
            left.rename(Path(root, TRASH, left.name))
        self._prefix = secrets.token_hex(8)
        self._taken = 0
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._task = asyncio.create_task(self._forever(), name="empty the trash")

    def take(self, directory: TaskDirectory) -> None:
        """Make a directory vanish from the tree now, and from the disk soon unless it is kept."""
        self._taken += 1
        name = f"{self._prefix}-{self._taken}"
        if len(self._spares) < self._spares_max:
            spare = directory.spare(name)
            if spare is not None:
                self._spares.append(spare)
                return
        directory.discard(name)
        self._wanted.set()

    def lend(self) -> str | None:
        """Return a directory that is as good as new, None when there is none. It is the caller's now."""
        return self._spares.pop() if self._spares else None

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
