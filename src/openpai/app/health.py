"""Readiness checks: what `GET /readyz` reports, part by part.

Any client may call it at any rate, so each check runs at most once a second and its result is shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Generic, TypeVar

import sqlalchemy as sa

from openpai.orchestrator.leader import Leader
from openpai.ports.store import LEASE_MS, JobStore
from openpai.protocol.errors import PaiError, Unavailable
from openpai.store.database import Database
from openpai.store.revisions import newest_schema
from openpai.store.schema import lease

T = TypeVar("T")

DATABASE_TIMEOUT_S: Final = 2.0
PART_TIMEOUT_S: Final = 3.0
FRESH_S: Final = 1.0
_SCHEMA: Final = sa.text("SELECT version_num FROM alembic_version")
# Changes no row, but a read-only database still refuses it.
_NO_CHANGE: Final = sa.update(lease).where(lease.c.name == "nobody").values(epoch=0)


class _Shared(Generic[T]):
    """Runs a check when its last result is older than `fresh_s`; concurrent callers share one run."""

    def __init__(self, check: Callable[[], Coroutine[Any, Any, T]], fresh_s: float) -> None:
        self._check = check
        self._fresh_s = fresh_s
        self._task: asyncio.Task[T] | None = None
        self._started_at_s = 0.0

    async def result(self) -> T:
        now_s = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and now_s - self._started_at_s >= self._fresh_s):
            self._task, self._started_at_s = asyncio.create_task(self._check()), now_s
        # A cancelled caller must not cancel the check for the others.
        return await asyncio.shield(self._task)


class DatabaseHealth:
    """Checks whether the database answers and has the schema of this program."""

    def __init__(self, database: Database, *, fresh_s: float = FRESH_S) -> None:
        self._database = database
        self._newest = newest_schema()
        self._shared = _Shared(self._find_error, fresh_s)

    async def check(self) -> None:
        """Raise Unavailable unless the database answers and has the schema of this version."""
        error = await self._shared.result()
        if error is not None:
            raise Unavailable(error.message, error.advice)

    async def _find_error(self) -> PaiError | None:
        try:
            self._database.check_files()
            async with asyncio.timeout(DATABASE_TIMEOUT_S):
                at = await self._database.read(lambda connection: connection.execute(_SCHEMA).scalar())
        except TimeoutError:
            return Unavailable("the database does not answer in time")
        except PaiError as error:
            return error
        if at != self._newest:
            message = f"the database was last used by another version of openpai (schema {at})"
            return Unavailable(message, "an administrator has to restart this server with that version")
        return None


class Readiness:
    """Checks everything that jobs need: database, disk, leader and, on the leader, the backend."""

    def __init__(
        self, database: Database, store: JobStore, check_room: Callable[[], None], leader: Callable[[], Leader | None]
    ) -> None:
        self._database = database
        self._store = store
        self._check_room = check_room
        self._find_leader = leader
        self._shared = _Shared(self._check_parts, FRESH_S)

    async def check(self) -> Mapping[str, str]:
        """Return the fault of each part, empty for a part that works."""
        return await self._shared.result()

    async def _check_parts(self) -> Mapping[str, str]:
        parts = {"database": self._database_error, "disk": self._disk_error, "leader": self._leader_error}
        if self._find_leader() is not None:
            parts["backend"] = self._backend_error
        errors = await asyncio.gather(*(_error_of(part()) for part in parts.values()))
        return dict(zip(parts, errors, strict=True))

    async def _database_error(self) -> str:
        await self._database.write(lambda connection: connection.execute(_NO_CHANGE))
        return ""

    async def _disk_error(self) -> str:
        self._check_room()
        return ""

    async def _leader_error(self) -> str:
        if self._find_leader() is not None or await self._store.leader_url(LEASE_MS):
            return ""
        return "no server runs the jobs; new jobs wait until one does"

    async def _backend_error(self) -> str:
        leader = self._find_leader()
        if leader is None:
            return ""
        return "" if await leader.backend.nodes() else "the backend has no nodes"


async def _error_of(check: Awaitable[str]) -> str:
    try:
        async with asyncio.timeout(PART_TIMEOUT_S):
            return await check
    except TimeoutError:
        return f"no answer within {PART_TIMEOUT_S:g} s"
    except PaiError as error:
        return error.message
    except OSError as error:
        return error.strerror or type(error).__name__
