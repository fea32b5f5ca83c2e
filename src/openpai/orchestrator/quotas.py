"""A cache of the quotas for some seconds, since every submission needs them."""

from __future__ import annotations

from typing import Final

from openpai.access.quotas import Quota, quotas_of
from openpai.ports.clock import Clock
from openpai.ports.usage import UsageStore

FRESH_MS: Final = 3_000


class QuotaCache:
    """Caches all quotas for at most three seconds."""

    def __init__(self, usage: UsageStore, clock: Clock) -> None:
        self._usage = usage
        self._clock = clock
        self._known: tuple[Quota, ...] = ()
        self._until_ms: int | None = None

    async def of(self, user: str) -> tuple[Quota, ...]:
        """Return the quotas that hold for a user."""
        now_ms = self._clock.now_ms()
        if self._until_ms is None or not 0 <= self._until_ms - now_ms <= FRESH_MS:
            self._known = await self._usage.quotas()
            self._until_ms = now_ms + FRESH_MS
        return quotas_of(user, self._known)

    def forget(self) -> None:
        """Drop the cache: the next call reads the store."""
        self._until_ms = None
