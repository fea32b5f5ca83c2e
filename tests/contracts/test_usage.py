"""What the account of use promises, asked of SQLite and of PostgreSQL, against the slow and obvious way to count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from openpai.ports.usage import AuditEntry, AuditFilter, Quota, UseRow
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.opening import migrate
from openpai.store.usage import SqlUsageStore
from openpai.store.using import keep_use

from .held import Held, run

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MONDAY_MS = 19_675 * DAY_MS


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    migrate(opened)
    yield opened
    opened.close()


def counted(all_held: Sequence[Held], from_ms: int, to_ms: int) -> dict[tuple[str, str, str], tuple[float, ...]]:
    """Count hour by hour what the store adds up."""
    sums: defaultdict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0])
    for held in all_held:
        at, end = max(held.from_ms, from_ms), min(to_ms if held.to_ms is None else held.to_ms, to_ms)
        is_first = True
        while at < end:
            until = min((at // DAY_MS + 1) * DAY_MS, end)
            row = sums[_day(at), held.user, held.virtual_cluster]
            for place, amount in enumerate((held.gpus, held.cpus, held.memory_mb / 1024)):
                row[place] += amount * (until - at) / HOUR_MS
            row[3] += is_first
            is_first, at = False, until
    return {key: tuple(row) for key, row in sums.items()}


def _day(at_ms: int) -> str:
    return f"2023-11-{at_ms // DAY_MS - 19_662 + 1:02}"


def told(rows: Sequence[UseRow]) -> dict[tuple[str, str, str], tuple[float, ...]]:
    return {
        (row.day, row.user, row.virtual_cluster): (
            row.gpu_hours,
            row.cpu_hours,
            row.memory_gb_hours,
            row.task_attempts,
        )
        for row in rows
    }


def test_the_days_of_these_tests_are_named_as_the_calendar_names_them() -> None:
    assert _day(MONDAY_MS) == "2023-11-14"


async def test_what_is_held_over_midnight_is_split_there(database: Database) -> None:
    usage = SqlUsageStore(database)
    await run(database, Held("ann", "a", MONDAY_MS + 22 * HOUR_MS, MONDAY_MS + 3 * DAY_MS + 6 * HOUR_MS, gpus=8))
    rows = await usage.use(MONDAY_MS, MONDAY_MS + 7 * DAY_MS)
    assert [(row.day, row.gpu_hours) for row in rows] == [
        ("2023-11-14", 16.0),
        ("2023-11-15", 192.0),
        ("2023-11-16", 192.0),
        ("2023-11-17", 48.0),
    ]
    assert (rows[0].cpu_hours, rows[0].memory_gb_hours) == (4.0, 2.0)
    assert sum(row.task_attempts for row in rows) == 1


async def test_what_still_runs_counts_until_now(database: Database) -> None:
    usage = SqlUsageStore(database)
    await run(database, Held("ann", "a", MONDAY_MS - 5 * DAY_MS, None, gpus=2))
    rows = await usage.use(MONDAY_MS, MONDAY_MS + 90 * 60_000)
    assert [(row.day, row.gpu_hours) for row in rows] == [("2023-11-14", 3.0)]


@pytest.mark.parametrize("seed", range(3))
async def test_the_sums_are_those_of_counting_one_by_one(database: Database, seed: int) -> None:
    chance = Random(seed)
    usage = SqlUsageStore(database)
    all_held = []
    for _ in range(60):
        start = MONDAY_MS + chance.choice((0, DAY_MS, chance.randrange(-3 * DAY_MS, 5 * DAY_MS)))
        length = chance.choice((DAY_MS, 1, chance.randrange(HOUR_MS), chance.randrange(6 * DAY_MS)))
        end = None if chance.random() < 0.1 else start + length
        amounts = (chance.randrange(9), chance.randrange(1, 64), chance.randrange(1, 2_000_000))
        all_held.append(Held(chance.choice("ab"), chance.choice(("x", "y")), start, end, *amounts))
    await run(database, *all_held)
    whole, odd = (MONDAY_MS, MONDAY_MS + 5 * DAY_MS), (MONDAY_MS + 12_345_678, MONDAY_MS + 3 * DAY_MS + 1)
    for period in (whole, odd, (MONDAY_MS + 5, MONDAY_MS + 7)):
        found, expected = told(await usage.use(*period)), counted(all_held, *period)
        assert found.keys() == expected.keys()
        for key, amounts in expected.items():
            assert found[key] == pytest.approx(amounts, rel=1e-12), key
    only = await usage.use(*whole, users=["a"], virtual_clusters=["y"])
    assert told(only) == {key: row for key, row in told(await usage.use(*whole)).items() if key[1:] == ("a", "y")}
    assert only


async def test_a_clock_that_was_set_back_makes_no_negative_hours(database: Database) -> None:
    usage = SqlUsageStore(database)
    await run(database, Held("ann", "a", MONDAY_MS + HOUR_MS, MONDAY_MS + HOUR_MS // 2))
    assert [row.gpu_hours for row in await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS)] in ([], [0.0])


async def test_nobody_gets_hours_back_by_deleting_a_job(database: Database) -> None:
    usage, store = SqlUsageStore(database), SqlJobStore(database)
    all_held = [
        Held("ann", "a", MONDAY_MS + HOUR_MS, MONDAY_MS + 5 * HOUR_MS, gpus=4),
        Held("ann", "a", MONDAY_MS + 20 * HOUR_MS, MONDAY_MS + 2 * DAY_MS + HOUR_MS),
        Held("ann", "a", MONDAY_MS + 2 * HOUR_MS, MONDAY_MS + 3 * HOUR_MS),
    ]
    ids = await run(database, *all_held)
    before = await usage.use(MONDAY_MS, MONDAY_MS + 3 * DAY_MS)

    for gone in (ids[:2], ids[2:]):
        await database.write(lambda connection, gone=gone: _delete(connection, gone))
        assert await usage.use(MONDAY_MS, MONDAY_MS + 3 * DAY_MS) == before
    assert await store.load(ids[0]) is None
    assert await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS, users=["bob"]) == ()


def _delete(connection, ids):  # type: ignore[no-untyped-def]
    from openpai.store.schema import jobs, task_attempts

    keep_use(connection, ids)
    connection.execute(task_attempts.delete().where(task_attempts.c.job.in_(ids)))
    connection.execute(jobs.delete().where(jobs.c.id.in_(ids)))


async def test_unfinished_jobs_are_counted_by_virtual_cluster(database: Database) -> None:
    usage = SqlUsageStore(database)
    running = Held("ann", "a", MONDAY_MS, None)
    over, elsewhere, of_bob = replace(running, to_ms=MONDAY_MS + 1), replace(running, virtual_cluster="b"), "bob"
    await run(database, running, running, over, elsewhere, replace(running, user=of_bob))
    assert await usage.unfinished("ann") == {"a": 2, "b": 1}
    assert await usage.unfinished("bob") == {"a": 1}
    assert await usage.unfinished("nobody") == {}


async def test_a_quota_is_remembered_replaced_and_forgotten(database: Database) -> None:
    usage = SqlUsageStore(database)
    for_all, of_ann = Quota(gpu_hours_per_month=1.5), Quota("a", "ann", 4, 2, 3)
    await usage.set_quota(of_ann)
    await usage.set_quota(for_all)
    assert await usage.quotas() == (for_all, of_ann)
    await usage.set_quota(replace(of_ann, gpus_running=None))
    assert await usage.quotas() == (for_all, replace(of_ann, gpus_running=None))
    assert await usage.remove_quota("a", "ann")
    assert not await usage.remove_quota("a", "ann")
    assert await usage.quotas() == (for_all,)


def entry(at_ms: int, actor: str, action: str = "job.stop", **more: object) -> AuditEntry:
    return AuditEntry(at_ms, actor, action, **{"target": f"{actor}~train", **more})  # type: ignore[arg-type]


async def test_the_audit_log_is_read_newest_first_page_by_page(database: Database) -> None:
    usage = SqlUsageStore(database)
    entries = [entry(at_ms, "ann", detail={"at": [at_ms, "ü"]}) for at_ms in range(5)]
    for each in entries:
        await usage.note(each)
    first = await usage.audit(AuditFilter(limit=2))
    assert [row.entry for row in first] == [entries[4], entries[3]]
    rest = await usage.audit(AuditFilter(before_id=first[-1].id))
    assert [row.entry for row in rest] == [entries[2], entries[1], entries[0]]


async def test_the_audit_log_is_filtered(database: Database) -> None:
    usage = SqlUsageStore(database)
    for each in (
        entry(1, "ann"),
        entry(2, "root", owner="ann", target="ann~train"),
        entry(3, "root", "quota.change", target="team-a"),
        entry(4, "bob", status=403, owner="ann", target="ann~train"),
        entry(5, "ann", owner="ann"),
    ):
        await usage.note(each)

    async def times(**asked: object) -> list[int]:
        return [row.entry.at_ms for row in await usage.audit(AuditFilter(**asked))]  # type: ignore[arg-type]

    assert await times(actors=("root", "bob")) == [4, 3, 2]
    assert await times(actions=("quota.change",)) == [3]
    assert await times(target="ann~train") == [5, 4, 2, 1]
    assert await times(concerning="ann") == [5, 4, 2, 1]
    assert await times(concerning="ann", limit=2) == [5, 4]
    assert await times(concerning="ann", actors=("root",)) == [2]
    assert await times(concerning="bob") == [4]
    assert await times(from_ms=2, to_ms=4) == [3, 2]


async def test_what_strangers_type_fits_into_the_audit_log(database: Database) -> None:
    usage = SqlUsageStore(database)
    await usage.note(AuditEntry(1, "x" * 5000, "login", "a\x00b\ud800" + "y" * 5000, detail={"name": "\x00\ud800"}))
    (row,) = await usage.audit(AuditFilter())
    assert row.entry.actor == "x" * 255
    assert row.entry.target.startswith("ab?yy")
    assert len(row.entry.target) == 512
