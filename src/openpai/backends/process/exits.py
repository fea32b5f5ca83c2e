"""Reports the end of processes, whether they are children of this server or were left by an earlier one.

Each watched process has a pidfd, all pidfds are in one epoll, and only that is registered with the event loop: no
thread and no timer per task, and many ends at once cost one wake-up.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from openpai.system.supervision import note_failure

Watched = TypeVar("Watched")
_EVENTS_PER_WAKING: Final = 256


class ExitWatch(Generic[Watched]):
    """Calls `on_exit` with the value given to `add` when that process ends."""

    def __init__(self, on_exit: Callable[[Watched], None]) -> None:
        self._on_exit = on_exit
        self._watched: dict[int, Watched] = {}
        self._epoll = select.epoll()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._wake)

    def add(self, held: int, watched: Watched) -> None:
        """Watch the process of a pidfd, which is closed when the process ends or the watch is closed."""
        self._epoll.register(held, select.EPOLLIN)
        self._watched[held] = watched

    def close(self) -> None:
        """Stop watching. The processes run on."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        for held in self._watched:
            os.close(held)
        self._watched.clear()

    def _wake(self) -> None:
        for held, _ in self._epoll.poll(0, _EVENTS_PER_WAKING):
            watched = self._watched.pop(held)
            self._epoll.unregister(held)
            os.close(held)
            try:
                self._on_exit(watched)
            except Exception as error:
                # One failed handler must not hide the other ends of this round.
                note_failure("handle the ends of processes", error)
