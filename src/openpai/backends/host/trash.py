"""Removes the directories of forgotten attempts in the background.

A directory is renamed out of the tree at once; its contents, which may be large, are removed later, several together.
A large one is removed in slices, with small ones in between. What cannot be removed is logged once and stays for the
next start. Directories in which a task left nothing may be kept for later tasks: creating and removing files is a large
part of the cost of a short task.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from openpai.backends.host.directory import SPARE, TRASH, TaskDirectory, make_directory, remove_if_unused
from openpai.system.removal import TreeRemoval
from openpai.system.supervision import supervise

log: Final = structlog.get_logger(__name__)
_COLLECTING_S: Final = 0.5
_SLICE: Final = 10_000
"""How many entries of a large directory are removed before small directories are."""
_NAMES_MAX: Final = 1000
_STUCK_MAX: Final = 10_000


class Trash:
    """Removes directories in the background. What is left when it closes is removed after the next opening."""

    def __init__(self, root: str, spares_max: int = 0) -> None:
        self._root = root
        self._spares_max = spares_max
        self._spares: list[str] = []
        self._make_places()
        # The state of these after an earlier server is unknown.
        for left in Path(root, SPARE).iterdir():
            left.rename(Path(root, TRASH, left.name))
        self._prefix = secrets.token_hex(8)
        self._taken = 0
        self._stuck: set[str] = set()
        self._removing = threading.Lock()
        self._large: TreeRemoval | None = None
        self._large_name = ""
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._task = supervise("empty the trash", self._forever)

    def take(self, directory: TaskDirectory) -> None:
        """Move a directory out of the tree now, and remove it from the disk soon unless it is kept."""
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
        """Return a clean directory, which is then the caller's, or None if there is none."""
        return self._spares.pop() if self._spares else None

    async def close(self) -> None:
        """Stop removing, in the middle of a large directory if need be."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await asyncio.to_thread(self._give_up)

    async def _forever(self) -> None:
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_COLLECTING_S)
            self._wanted.clear()
            try:
                while await asyncio.to_thread(self._empty_some):
                    pass
            except BaseException:
                self._wanted.set()
                raise

    def _make_places(self) -> None:
        """Create the trash directories, also if they were removed meanwhile."""
        Path(self._root).mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (TRASH, SPARE):
            make_directory(f"{self._root}/{directory}")

    def _empty_some(self) -> bool:
        """Remove discarded directories: all small ones, and a slice of a large one. Return whether there are more."""
        with self._removing:
            try:
                return self._empty_listed(self._names())
            except FileNotFoundError:
                self._make_places()
                return False

    def _empty_listed(self, names: list[str]) -> bool:
        large = ""
        for name in names:
            if not remove_if_unused(f"{self._root}/{TRASH}/{name}"):
                large = large or name
        if self._large is None and large:
            self._large, self._large_name = TreeRemoval(f"{self._root}/{TRASH}/{large}", opens_closed=True), large
        if self._large is not None and self._is_large_gone(self._large):
            self._large = None
        return self._large is not None or bool(large) or len(names) == _NAMES_MAX

    def _give_up(self) -> None:
        # A thread may be in the middle of a slice whose task was cancelled.
        with self._removing:
            if self._large is not None:
                self._large.close()

    def _is_large_gone(self, large: TreeRemoval) -> bool:
        """Remove a slice; return whether nothing is left, or nothing that can be removed."""
        try:
            return large.remove_some(_SLICE)
        except OSError as error:
            self._stuck.add(self._large_name)
            log.warning(
                "what a task left cannot be removed; remove it by hand",
                path=f"{self._root}/{TRASH}/{self._large_name}",
                error=str(error),
            )
            return True

    def _names(self) -> list[str]:
        if len(self._stuck) > _STUCK_MAX:
            return []
        skipped = {*self._stuck, self._large_name if self._large is not None else ""}
        with os.scandir(f"{self._root}/{TRASH}") as found:
            return list(islice((entry.name for entry in found if entry.name not in skipped), _NAMES_MAX))
