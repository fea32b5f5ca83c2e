"""Whether jobs can be submitted and run: asked by those who send people to a server, and by those who watch it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import sqlalchemy as sa

from openpai.orchestrator.leader import Leader
from openpai.ports.store import LEASE_MS, JobStore
from openpai.protocol.errors import PaiError
from openpai.store.database import Database
from openpai.store.schema import lease

PATIENCE_S: Final = 3.0
FRESH_S: Final = 1.0
# It changes nothing, and is refused all the same by whatever takes no writes.
_NO_CHANGE: Final = sa.update(lease).where(lease.c.name == "nobody").values(epoch=0)


class Readiness:
    """Looks at everything the platform needs, once a second at most, however many ask."""

    def __init__(
        self, database: Database, store: JobStore, check_room: Callable[[], None], leader: Callable[[], Leader | None]
    ) -> None:
        self._database = database
        self._store = store
        self._check_room = check_room
        self._find_leader = leader
        self._looking: asyncio.Task[Mapping[str, str]] | None = None
        self._looked_at_s = 0.0

    async def look(self) -> Mapping[str, str]:
        """Return what is wrong with each part, empty for nothing."""
        now_s = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now_s - self._looked_at_s >= FRESH_S):
            self._looking, self._looked_at_s = asyncio.create_task(self._look()), now_s
        return await asyncio.shield(self._looking)

    async def _look(self) -> Mapping[str, str]:
        parts = {"database": self._database_takes_writes, "disk": self._disk, "leader": self._leader}
        if self._find_leader() is not None:
            parts["backend"] = self._backend
        found = await asyncio.gather(*(_wrong(part()) for part in parts.values()))
        return dict(zip(parts, found, strict=True))

    async def _database_takes_writes(self) -> str:
        await self._database.write(lambda connection: connection.execute(_NO_CHANGE))
        return ""

    async def _disk(self) -> str:
        self._check_room()
        return ""

    async def _leader(self) -> str:
        if self._find_leader() is not None or await self._store.leader_url(LEASE_MS):
            return ""
        return "no server runs the jobs: what is submitted waits until one does"

    async def _backend(self) -> str:
        leader = self._find_leader()
        if leader is None:
            return ""
        return "" if await leader.backend.nodes() else "the backend has no nodes"


async def _wrong(look: Awaitable[str]) -> str:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await look
    except TimeoutError:
        return f"it does not answer within {PATIENCE_S:g} s"
    except PaiError as error:
        return error.message
    except OSError as error:
        return error.strerror or type(error).__name__
