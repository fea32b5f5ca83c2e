"""The lease of the leader: one server holds it at a time, and each change of its holder has a number, the epoch.

Servers do not compare their wall clocks: one that is ahead would take the lease from its holder. A server takes a lease
for expired when it has watched it for as long as it lasts, by a clock that is never set, and saw no renewal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from openpai.store.database import Database
from openpai.store.locks import LEADER, check_lease
from openpai.store.schema import lease

# Made once: servers ask for the lease every second, and making a statement takes longer than what the database does.
_IS_LEADER: Final = lease.c.name == LEADER
_HELD: Final = sa.select(lease).where(_IS_LEADER).with_for_update()
_RENEW: Final = (
    sa.update(lease)
    .where(_IS_LEADER)
    .values({name: sa.bindparam(f"new_{name}") for name in ("holder", "epoch", "until_ms", "url")})
)
_LEADING: Final = sa.select(lease).where(_IS_LEADER, lease.c.holder.is_not(None))


class SqlLeases:
    """The part of `ports.store.JobStore` about the lease of the leader."""

    def __init__(self, database: Database, steady_ms: Callable[[], int] | None = None) -> None:
        self._database = database
        self._steady_ms = steady_ms or (lambda: time.monotonic_ns() // 1_000_000)
        self._seen: tuple[Any, ...] = ()
        self._seen_at_ms = 0

    async def lease(self, holder: str, now_ms: int, ttl_ms: int, url: str = "") -> int | None:
        def work(connection: sa.Connection) -> int | None:
            row = connection.execute(_HELD).first()
            if row is None:
                first = {"name": LEADER, "holder": holder, "epoch": 1, "until_ms": now_ms + ttl_ms, "url": url}
                connection.execute(lease.insert(), first)
                return 1
            if not _is_free(row, holder) and self._is_alive(row, ttl_ms):
                return None
            epoch = int(row.epoch) if row.holder == holder else int(row.epoch) + 1
            until_ms = now_ms + ttl_ms
            # Other servers must see a renewal even if a clock that was set back shows the same time again.
            until_ms += row.until_ms == until_ms
            renewed = {"new_holder": holder, "new_epoch": epoch, "new_until_ms": until_ms, "new_url": url}
            connection.execute(_RENEW, renewed)
            return epoch

        return await self._database.write(work)

    async def leader_url(self, ttl_ms: int) -> str:
        row = await self._database.read(lambda connection: connection.execute(_LEADING).first())
        return row.url or "" if row is not None and self._is_alive(row, ttl_ms) else ""

    async def check_lease(self, epoch: int) -> None:
        await self._database.read(lambda connection: check_lease(connection, epoch))

    async def release_lease(self, holder: str) -> None:
        mine = sa.update(lease).where(lease.c.name == LEADER, lease.c.holder == holder).values(holder=None, until_ms=0)
        await self._database.write(lambda connection: connection.execute(mine))

    def _is_alive(self, row: Any, ttl_ms: int) -> bool:
        """Return whether a lease may have been renewed within `ttl_ms`, as far as this server has watched it."""
        seen, steady_ms = (row.holder, row.epoch, row.until_ms), self._steady_ms()
        if seen != self._seen:
            self._seen, self._seen_at_ms = seen, steady_ms
        return steady_ms - self._seen_at_ms < ttl_ms


def _is_free(row: Any, holder: str) -> bool:
    if row.holder is None or row.holder == holder:
        return True
    # Only one process at a time may use a data directory, so another one of the same directory is dead.
    return str(row.holder).rpartition("/")[0] == holder.rpartition("/")[0] != ""
