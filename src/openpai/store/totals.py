"""Caches counts of jobs, the longer the more time they cost.

Counting matches among a million jobs reads a whole index, and clients that show a list request the same count every few
seconds. With the cache, counting takes at most a twentieth of a core per list. Quick counts are not cached, also
not those that had to wait on a busy machine: a page that hears of a new job asks for the count of now.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final

QUICK_S: Final = 0.02
BELIEVED_TIMES: Final = 20
BELIEVED_S_MAX: Final = 10.0
TOTALS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Counted:
    """A total, and what it cost."""

    total: int
    took_s: float


@dataclass(frozen=True, slots=True)
class _Known:
    total: int
    until_s: float


class Totals:
    """Caches totals by their query; concurrent callers of a slow query share one count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, _Known] = {}
        self._counting: dict[Hashable, asyncio.Future[int]] = {}

    async def of(self, query: Hashable, count: Callable[[], Awaitable[Counted]]) -> int:
        """Return the total of a query, counted now or recently."""
        known = self._known.get(query)
        if known is None:
            return await self._counted(query, count)
        if self._clock() < known.until_s:
            return known.total
        counting = self._counting.get(query)
        if counting is None:
            counting = asyncio.ensure_future(self._counted(query, count))
            self._counting[query] = counting
            counting.add_done_callback(lambda _: self._counting.pop(query, None))
        # A cancelled caller must not cancel the count for the others.
        return await asyncio.shield(counting)

    async def _counted(self, query: Hashable, count: Callable[[], Awaitable[Counted]]) -> int:
        counted = await count()
        self._known.pop(query, None)
        if counted.took_s > QUICK_S:
            if len(self._known) >= TOTALS_MAX:
                del self._known[next(iter(self._known))]
            believed_s = min(counted.took_s * BELIEVED_TIMES, BELIEVED_S_MAX)
            self._known[query] = _Known(counted.total, self._clock() + believed_s)
        return counted.total
