"""Whether the database answers right now, for those who send requests only to servers that can answer them.

Anybody may ask, as often as they like, so the database itself is asked once a second at most.
"""

from __future__ import annotations

import asyncio
from typing import Final

import sqlalchemy as sa

from openpai.protocol.errors import PaiError, Unavailable
from openpai.store.database import Database
from openpai.store.opening import newest_schema

PATIENCE_S: Final = 2.0
FRESH_S: Final = 1.0
_SCHEMA: Final = sa.text("SELECT version_num FROM alembic_version")


class Pulse:
    """Asks the database how it is."""

    def __init__(self, database: Database, *, fresh_s: float = FRESH_S) -> None:
        self._database = database
        self._fresh_s = fresh_s
        self._newest = newest_schema()
        self._asking: asyncio.Task[PaiError | None] | None = None
        self._asked_at_s = 0.0

    async def check(self) -> None:
        """Raise Unavailable unless the database answers, with the tables that this program knows."""
        now_s = asyncio.get_running_loop().time()
        if self._asking is None or (self._asking.done() and now_s - self._asked_at_s >= self._fresh_s):
            self._asking, self._asked_at_s = asyncio.create_task(self._ask()), now_s
        # Who gives up waiting takes nothing from the others.
        error = await asyncio.shield(self._asking)
        if error is not None:
            raise Unavailable(error.message, error.advice)

    async def _ask(self) -> PaiError | None:
        try:
            self._database.check_files()
            async with asyncio.timeout(PATIENCE_S):
                at = await self._database.read(lambda connection: connection.execute(_SCHEMA).scalar())
        except TimeoutError:
            return Unavailable("the database does not answer in time")
        except PaiError as error:
            return error
        if at != self._newest:
            message = f"the database was last used by another version of openpai (schema {at})"
            return Unavailable(message, "an administrator has to restart this server with that version")
        return None
