"""What changed in a cache, kept for one reader until it comes: bounded by the number of objects, not of events.

A reader that is slow sees the newest state of an object instead of each step. It never misses that an object ended or
was deleted, nor takes a new object for an old one of the same name: they differ in their UID and are two changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Generic, NamedTuple

from openpai.kube.objects.kinds import T

UNSEEN_MAX: Final = 100_000
"""Deletions that wait for a reader that never comes; the oldest are dropped beyond."""


class Change(NamedTuple, Generic[T]):
    """An object that appeared, changed or went."""

    old: T | None
    """As the reader last saw it; None for one that appeared."""
    new: T | None
    """As it is; None for one that is gone."""
    last: T
    """The newest that was seen of it: as it is, or as it was when it was deleted."""

    @property
    def is_deletion(self) -> bool:
        """Return whether the object is gone."""
        return self.new is None


class Changes(Generic[T]):
    """Changes that wait for one reader. Iterate over it, or `take` all at once."""

    def __init__(self) -> None:
        self._waiting: dict[str, Change[T]] = {}
        self._are_some = asyncio.Event()
        self.dropped = 0
        """How many deletions of objects that the reader never saw were dropped."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, change: Change[T]) -> None:
        """Keep a change for the reader, merged with an earlier one of the same object."""
        uid = change.last.uid
        earlier = self._waiting.get(uid)
        if earlier is not None:
            change = Change(earlier.old, change.new, change.last)
        elif len(self._waiting) >= UNSEEN_MAX:
            self._drop_one()
        self._waiting[uid] = change
        self._are_some.set()

    def take(self) -> list[Change[T]]:
        """Return the changes that wait, oldest object first."""
        found = list(self._waiting.values())
        self._waiting.clear()
        self._are_some.clear()
        return found

    async def wait(self) -> list[Change[T]]:
        """Return the changes that wait as soon as there are some."""
        await self._are_some.wait()
        return self.take()

    async def __aiter__(self) -> AsyncIterator[Change[T]]:
        while True:
            for change in await self.wait():
                yield change

    def _drop_one(self) -> None:
        for uid, change in self._waiting.items():
            if change.is_deletion and change.old is None:
                del self._waiting[uid]
                self.dropped += 1
                return
