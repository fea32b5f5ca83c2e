"""Runs one reconciliation per object at a time, several objects side by side, and repeats what failed ever later."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import structlog

from openpai.protocol.errors import PaiError, Unavailable
from openpai.system.supervision import background, note_failure

PARALLEL: Final = 16
PAUSE_FIRST_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0
POLLS_PER_S: Final = 20
"""How many objects are looked at again per second without a change, at most."""
log: Final = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
Step = Callable[[K], Awaitable[float | None]]


class WorkQueue(Generic[K]):
    """Keys that are due at some time."""

    def __init__(self, name: str, step: Step[K]) -> None:
        self._name = name
        self._step = step
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._added = 0
        self._running: dict[K, asyncio.Task[None]] = {}
        self._changed: set[K] = set()
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, after_s: float = 0.0) -> None:
        """Have a key looked at, not later than asked before."""
        if key in self._running:
            if not after_s:
                self._changed.add(key)
            return
        at_s = asyncio.get_running_loop().time() + after_s
        if at_s < self._due.get(key, float("inf")):
            self._due[key] = at_s
            self._added += 1
            heapq.heappush(self._heap, (at_s, self._added, key))
            self._wake.set()

    def forget(self, key: K) -> None:
        """Look at a key no more, unless it is added again."""
        self._due.pop(key, None)
        self._changed.discard(key)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                self._wake.clear()
                pause_s = self._start_due()
                try:
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            for task in self._running.values():
                task.cancel()

    def _start_due(self) -> float | None:
        """Start what is due, as far as there is room; return when the next is due."""
        now_s = asyncio.get_running_loop().time()
        while self._heap and len(self._running) < PARALLEL:
            at_s, _, key = self._heap[0]
            if self._due.get(key) != at_s:
                heapq.heappop(self._heap)
                continue
            if at_s > now_s:
                return at_s - now_s
            heapq.heappop(self._heap)
            del self._due[key]
            self._running[key] = background(self._name, self._work(key))
        return None

    async def _work(self, key: K) -> None:
        after_s: float | None = None
        try:
            after_s = await self._step(key)
            self._failures.pop(key, None)
            if after_s:
                after_s = max(after_s, len(self._due) / POLLS_PER_S)
        except PaiError as error:
            after_s = self._after_failure(key)
            if not isinstance(error, Unavailable) or self._failures[key] == 1:
                log.warning("not done; it is tried again", what=str(key), error=error.message)
        except Exception as error:
            after_s = self._after_failure(key)
            note_failure(self._name, error)
        finally:
            self._running.pop(key, None)
            is_changed = key in self._changed
            self._changed.discard(key)
            if is_changed or after_s is not None:
                self.add(key, 0.0 if is_changed and key not in self._failures else after_s or 0.0)
            self._wake.set()

    def _after_failure(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return float(min(PAUSE_FIRST_S * 2 ** min(failures - 1, 10), PAUSE_MAX_S))
