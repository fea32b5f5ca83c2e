"""Which quotas hold for somebody: for each virtual cluster their own, else the one for everybody without one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from openpai.access.model import Principal
from openpai.ports.clock import Clock
from openpai.ports.usage import Quota, UsageStore

BELIEVED_MS: Final = 3_000


def prevailing(quotas: Iterable[Quota], user: str) -> tuple[Quota, ...]:
    """Return the quotas that hold for a user, at most one for each virtual cluster and one over all together."""
    # Quotas of a user come after the one for everybody, whose user is empty, and take its place.
    ordered = sorted(quotas, key=lambda quota: quota.user)
    return tuple({quota.virtual_cluster: quota for quota in ordered if quota.user in ("", user)}.values())


class Allowances:
    """Knows all quotas, as they were a few seconds ago at the latest."""

    def __init__(self, usage: UsageStore, clock: Clock) -> None:
        self._usage = usage
        self._clock = clock
        self._known: tuple[Quota, ...] = ()
        self._until_ms: int | None = None

    async def of(self, who: Principal) -> tuple[Quota, ...]:
        """Return the quotas that hold for somebody."""
        now_ms = self._clock.now_ms()
        if self._until_ms is None or not 0 <= self._until_ms - now_ms <= BELIEVED_MS:
            self._known = await self._usage.quotas()
            self._until_ms = now_ms + BELIEVED_MS
        return prevailing(self._known, who.name)

    def forget(self) -> None:
        """Ask the store again next time."""
        self._until_ms = None
