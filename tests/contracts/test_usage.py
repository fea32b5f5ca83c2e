"""What the account of use promises, asked of SQLite and of PostgreSQL, against the slow and obvious way to count."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
import sqlalchemy as sa

from openpai.access.quotas import Quota
from openpai.lifecycle.facts import StartRequested
from openpai.lifecycle.stepping import step
from openpai.orchestrator.changes import build_change
from openpai.ports.store import AlreadySubmitted, Saved
from openpai.ports.usage import AuditEntry, AuditFilter, BeyondQuota, UseRow
from openpai.store.accounting import Period, _by_day, _within_a_day, keep_use
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.queries import SqlJobQueries
from openpai.store.schema import past_use
from openpai.store.usage import SqlUsageStore

from .held import Held, new, run

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MONDAY_MS = 19_675 * DAY_MS


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


def describe(rows: Sequence[UseRow]) -> dict[tuple[str, str, str], tuple[float, ...]]:
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


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
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
        found, expected = describe(await usage.use(*period)), counted(all_held, *period)
        assert found.keys() == expected.keys()
        for key, amounts in expected.items():
            assert found[key] == pytest.approx(amounts, rel=1e-12), key
    only = await usage.use(*whole, users=["a"], virtual_clusters=["y"])
    assert describe(only) == {
        key: row for key, row in describe(await usage.use(*whole)).items() if key[1:] == ("a", "y")
    }
    assert only


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
async def test_the_gpu_hours_of_a_month_are_those_that_the_report_counts(database: Database, seed: int) -> None:
    chance = Random(seed)
    usage = SqlUsageStore(database)
    november, december = _ms(2023, 11), _ms(2023, 12)
    all_held = []
    for _ in range(60):
        start = chance.choice((november, december, chance.randrange(november - 40 * DAY_MS, december + 20 * DAY_MS)))
        length = chance.choice((DAY_MS, 1, chance.randrange(HOUR_MS), chance.randrange(70 * DAY_MS)))
        end = None if chance.random() < 0.1 else start + length
        all_held.append(Held(chance.choice("ab"), chance.choice(("x", "y")), start, end, chance.randrange(9)))
    ids = await run(database, *all_held)
    latest = max(held.to_ms or 0 for held in all_held)
    last = datetime.fromtimestamp(latest / 1000, UTC)
    begins = _ms(last.year, last.month)
    for gone in ([], ids[::3]):
        await database.write(lambda connection, gone=gone: _delete(connection, gone))
        for user in "ab":
            rows = await usage.use(begins, latest + 1, users=[user])
            expected: defaultdict[str, float] = defaultdict(float)
            for row in rows:
                expected[row.virtual_cluster] += row.gpu_hours
            found = await usage.gpu_hours_this_month(user, latest + 1)
            assert {name: hours for name, hours in found.items() if hours} == pytest.approx(
                {name: hours for name, hours in expected.items() if hours}, rel=1e-12
            )


async def test_a_month_begins_with_nothing_but_what_runs_on(database: Database) -> None:
    usage = SqlUsageStore(database)
    december = _ms(2023, 12)
    await run(
        database,
        Held("ann", "a", december - 3 * HOUR_MS, december + HOUR_MS, gpus=8),
        Held("ann", "b", december - 2 * HOUR_MS, None, gpus=2),
        Held("ann", "b", december - 9 * HOUR_MS, december, gpus=4),
    )
    assert await usage.gpu_hours_this_month("ann", december - 1) == pytest.approx({"a": 24.0, "b": 40.0}, rel=1e-6)
    assert await usage.gpu_hours_this_month("ann", december) == {"a": 8.0, "b": 0.0}
    assert await usage.gpu_hours_this_month("ann", december + HOUR_MS) == {"a": 8.0, "b": 2.0}
    assert await usage.gpu_hours_this_month("bob", december) == {}


def _ms(year: int, month: int) -> int:
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000


async def test_a_clock_that_was_set_back_makes_no_negative_hours(database: Database) -> None:
    usage = SqlUsageStore(database)
    await run(database, Held("ann", "a", MONDAY_MS + HOUR_MS, MONDAY_MS + HOUR_MS // 2))
    assert [row.gpu_hours for row in await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS)] in ([], [0.0])


async def test_deleting_a_job_gives_no_hours_back(database: Database) -> None:
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


async def test_servers_that_delete_at_once_keep_the_hours_of_both(database: Database) -> None:
    other = Database(str(database.url.render_as_string(hide_password=False)))
    try:
        queries = SqlJobQueries(database), SqlJobQueries(other)
        # On a day of their own each, so that both servers find no hours kept of it yet.
        days = [MONDAY_MS + 2 * day * DAY_MS for day in range(20)]
        for number, begins in enumerate(days):
            pair = [Held("ann", "a", begins, begins + HOUR_MS)] * 2
            ids = await run(database, *pair, first=2 * number)
            assert (
                await asyncio.gather(*(here.delete(id_) for here, id_ in zip(queries, ids, strict=True))) == [True] * 2
            )
        rows = await SqlUsageStore(database).use(days[0], days[-1] + DAY_MS)
        assert [row.gpu_hours for row in rows] == [2.0] * len(days)
    finally:
        other.close()


def _delete(connection, ids):  # type: ignore[no-untyped-def]
    from openpai.store.schema import jobs, task_attempts

    keep_use(connection, ids)
    connection.execute(task_attempts.delete().where(task_attempts.c.job.in_(ids)))
    connection.execute(jobs.delete().where(jobs.c.id.in_(ids)))


async def test_what_changes_while_a_report_is_made_is_counted_once(database: Database) -> None:
    ids = await run(database, Held("ann", "a", MONDAY_MS, MONDAY_MS + 2 * HOUR_MS))
    other = Database(str(database.url.render_as_string(hide_password=False)))
    period = Period(MONDAY_MS, MONDAY_MS + DAY_MS)

    def while_it_is_deleted(connection: sa.Connection) -> tuple[float, float]:
        connection.execute(sa.select(past_use)).all()
        with other.engine.begin() as elsewhere:
            _delete(elsewhere, ids)
        rows = connection.execute(_within_a_day(period), {"start_ms": period.from_ms, "end_ms": period.to_ms})
        there = sum(row.gpus / HOUR_MS for row in rows)
        kept = sum(row.gpu_ms / HOUR_MS for row in connection.execute(_by_day(past_use, period)))
        return there, kept

    try:
        assert await database.read(while_it_is_deleted) == (2.0, 0.0)
        assert sum(row.gpu_hours for row in await SqlUsageStore(database).use(period.from_ms, period.to_ms)) == 2.0
    finally:
        other.close()


async def test_unfinished_jobs_are_counted_by_virtual_cluster(database: Database) -> None:
    usage = SqlUsageStore(database)
    running = Held("ann", "a", MONDAY_MS, None)
    over, elsewhere, of_bob = replace(running, to_ms=MONDAY_MS + 1), replace(running, virtual_cluster="b"), "bob"
    await run(database, running, running, over, elsewhere, replace(running, user=of_bob))
    assert await usage.unfinished("ann") == {"a": 2, "b": 1}
    assert await usage.unfinished("bob") == {"a": 1}
    assert await usage.unfinished("nobody") == {}


@pytest.mark.parametrize("quota", [Quota("a", "ann", jobs_unfinished=7), Quota(jobs_unfinished=7)])
async def test_no_job_gets_past_a_quota_however_many_are_added_at_once(database: Database, quota: Quota) -> None:
    other = Database(str(database.url.render_as_string(hide_password=False)))
    try:
        stores = [SqlJobStore(database), SqlJobStore(other)]
        of = [Held(("ann", "bob")[number % 4 // 2], "a", MONDAY_MS, None) for number in range(60)]
        asked = [stores[number % 2].add_job(new(number, held, quota), 1) for number, held in enumerate(of)]
        message = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        other.close()
    usage = SqlUsageStore(database)
    assert (await usage.unfinished("ann"), await usage.unfinished("bob")) == ({"a": 7}, {"a": 7})
    assert [each.count for each in message if isinstance(each, BeyondQuota)] == [7] * 46, message


async def test_a_job_sent_again_under_its_key_is_the_same_job_whatever_room_there_is(database: Database) -> None:
    store, quota = SqlJobStore(database), Quota(jobs_unfinished=1)
    first = replace(new(1, Held("ann", "a", MONDAY_MS, None), quota), idempotency_key="k")
    await store.add_job(first, None)
    with pytest.raises(AlreadySubmitted):
        await store.add_job(first, None)
    with pytest.raises(BeyondQuota):
        await store.add_job(replace(new(2, Held("ann", "a", MONDAY_MS, None), quota), idempotency_key="k2"), None)
    assert await store.submitted("ann", "k2") is None


async def test_jobs_that_run_again_need_room_too(database: Database) -> None:
    over = Held("ann", "a", MONDAY_MS, MONDAY_MS + 1)
    ids = await run(database, over, over, over)
    other = Database(str(database.url.render_as_string(hide_password=False)))
    try:
        stores, changes = (SqlJobStore(database), SqlJobStore(other)), []
        for id_ in ids:
            before = await stores[0].load(id_)
            assert before is not None
            stepped = step(before.job, (StartRequested(MONDAY_MS + 2, "ann"),))
            change = build_change(before, stepped, {}, MONDAY_MS + 2)
            changes.append(replace(change, quotas=(Quota("a", jobs_unfinished=2),)))
        asked = [stores[number % 2].save([change], None) for number, change in enumerate(changes)]
        message = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        other.close()
    assert message.count((Saved.YES,)) == 2
    assert sum(isinstance(each, BeyondQuota) for each in message) == 1
    assert await SqlUsageStore(database).unfinished("ann") == {"a": 2}


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


async def test_limits_that_different_servers_set_at_once_are_all_there(database: Database) -> None:
    other = Database(str(database.url.render_as_string(hide_password=False)))
    try:
        here, there = SqlUsageStore(database), SqlUsageStore(other)
        for round_ in range(5):
            asked = (
                here.set_quota(Quota("a", "ann", gpus_running=round_), ("gpus_running",)),
                there.set_quota(Quota("a", "ann", jobs_unfinished=round_), ("jobs_unfinished",)),
                here.set_quota(Quota("a", "ann"), ("gpus_per_job",)),
                there.set_quota(Quota("a", "ann", gpus_running=99), ()),
            )
            await asyncio.gather(*asked)
            assert await here.quotas() == (Quota("a", "ann", round_, None, round_),)
            # If several replace it at once, one succeeds and none fails.
            await asyncio.gather(*(usage.set_quota(Quota("a", "ann", 1, 2, 3)) for usage in (here, there) * 3))
            assert await here.quotas() == (Quota("a", "ann", 1, 2, 3),)
            assert await there.remove_quota("a", "ann")
    finally:
        other.close()


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


async def test_old_entries_of_the_audit_log_are_forgotten(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.store.forgetting.ROWS_AT_ONCE", 2)
    usage = SqlUsageStore(database)
    for at_ms in (1, 2, 3, 4, 5, 9):
        await usage.note(entry(at_ms, "ann"))
    assert await usage.forget_audit(6) == 5
    assert await usage.forget_audit(6) == 0
    await usage.note(entry(10, "ann"))
    assert [row.entry.at_ms for row in await usage.audit(AuditFilter())] == [10, 9]


async def test_what_strangers_type_fits_into_the_audit_log(database: Database) -> None:
    usage = SqlUsageStore(database)
    await usage.note(AuditEntry(1, "x" * 5000, "login", "a\x00b\ud800" + "y" * 5000, detail={"name": "\x00\ud800"}))
    (row,) = await usage.audit(AuditFilter())
    assert row.entry.actor == "x" * 255
    assert row.entry.target.startswith("ab?yy")
    assert len(row.entry.target) == 512
