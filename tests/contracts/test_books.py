"""`pai admin check` on the hours of users, in SQLite and in PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

from openpai.store.checking import Checking
from openpai.store.database import Database
from openpai.store.queries import SqlJobQueries
from openpai.store.schema import past_use, task_attempts

from .held import Held, run


async def test_hours_that_are_wrong_are_found_and_right_ones_are_not(database: Database) -> None:
    hour = 3_600_000
    over, deleted, _ = await run(
        database, Held("ann", "default", hour, 2 * hour), Held("bob", "default", hour, 3 * hour),
        Held("ann", "default", hour, None),
    )  # fmt: skip
    assert await SqlJobQueries(database).delete(deleted)
    checking = Checking(database)
    assert checking.books() == {}
    broken = {
        "task attempts of jobs that are over still count hours": sa.update(task_attempts)
        .where(task_attempts.c.job == over)
        .values(ended_at_ms=None),
        "sums of deleted jobs are negative": sa.update(past_use).values(gpu_ms=-past_use.c.gpu_ms),
        "task attempts belong to no job": sa.update(task_attempts)
        .where(task_attempts.c.job != over)
        .values(job="f" * 32),
    }
    found: set[str] = set()
    for what, change in broken.items():
        await database.write(lambda connection, change=change: connection.execute(change))  # type: ignore[misc]
        found.add(what)
        assert checking.books() == dict.fromkeys(found, 1)
