"""GPU time without a guarantee, in SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from openpai.ports.store import LeaseLost
from openpai.ports.usage import LentUse
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.usage import SqlUsageStore

from .held import Held, run
from .test_usage import DAY_MS, HOUR_MS, MONDAY_MS, _day


async def test_lent_and_borrowed_time_is_added_up_by_day(database: Database) -> None:
    usage = SqlUsageStore(database)
    await run(database, Held("ann", "a", MONDAY_MS, MONDAY_MS + 2 * HOUR_MS, gpus=2))
    rows = (LentUse("a", "ann", borrowed_gpu_ms=HOUR_MS), LentUse("b", lent_gpu_ms=HOUR_MS / 2))
    for at_ms in (MONDAY_MS, MONDAY_MS + DAY_MS - 1, MONDAY_MS + DAY_MS):
        await usage.add_lent_use(rows, at_ms, None)
    found = await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS)
    assert [
        (row.user, row.virtual_cluster, row.gpu_hours, row.gpu_hours_borrowed, row.gpu_hours_lent) for row in found
    ] == [
        ("", "b", 0.0, 0.0, 1.0),
        ("ann", "a", 4.0, 2.0, 0.0),
    ]
    assert [row.day for row in await usage.use(MONDAY_MS, MONDAY_MS + 2 * DAY_MS, users=["ann"])] == [
        _day(MONDAY_MS),
        _day(MONDAY_MS + DAY_MS),
    ]
    assert [row.gpu_hours_lent for row in await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS, virtual_clusters=["b"])] == [
        1.0
    ]


async def test_moves_are_added_up_by_day_beside_what_was_borrowed(database: Database) -> None:
    usage = SqlUsageStore(database)
    moved = LentUse("a", "ann", jobs_moved=1, moved_gpu_ms=HOUR_MS / 4)
    await usage.add_lent_use((moved, LentUse("a", "ann", borrowed_gpu_ms=HOUR_MS), moved), MONDAY_MS, None)
    await usage.add_lent_use((moved,), MONDAY_MS + DAY_MS, None)
    found = await usage.use(MONDAY_MS, MONDAY_MS + 2 * DAY_MS)
    assert [(row.user, row.jobs_moved, row.gpu_hours_moved, row.gpu_hours_borrowed) for row in found] == [
        ("ann", 2, 0.5, 1.0),
        ("ann", 1, 0.25, 0.0),
    ]


async def test_a_leader_with_an_expired_lease_adds_no_lent_time(database: Database) -> None:
    usage, jobs = SqlUsageStore(database), SqlJobStore(database)
    epoch = await jobs.lease("a/1", 0, 15_000)
    assert await jobs.lease("a/2", 0, 15_000) != epoch
    with pytest.raises(LeaseLost):
        await usage.add_lent_use((LentUse("b", lent_gpu_ms=1),), MONDAY_MS, epoch)
    assert await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS) == ()
