"""What the list of jobs promises whichever database is behind it: order, pages, totals, tags and the archive."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.lifecycle.model import AttemptKey, JobPhase, Plan, RolePlan
from openpai.lifecycle.states import JOB_STATES
from openpai.lifecycle.stepping import new_job
from openpai.ports.queries import JobFilter, JobPage, JobRow
from openpai.ports.store import Event, JobRecord, NewJob
from openpai.protocol.errors import Refused
from openpai.protocol.sweeps import LATER_TAG, Membership, tags_of
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.queries import SqlJobQueries
from openpai.store.rows import stored_phase
from openpai.store.schema import events, jobs, tags, task_attempts
from openpai.store.totals import Counted, Totals
from tests.contracts.held import SPEC

PLAN = Plan((RolePlan("worker", 1, 1, 1, 0),), 0, True)
ORDERS = (
    "jobName", "submissionTime", "username", "vc", "retries", "totalTaskNumber", "totalGpuNumber", "state",
    "completionTime", "jobPriority",
)  # fmt: skip
COUNT = 60


def id_of(number: int) -> str:
    return f"{number * 7919 % 9973:032x}"


@pytest.fixture
async def queries(database: Database) -> SqlJobQueries:
    """A list of jobs that differ in everything, with many equals in each."""
    store, queries = SqlJobStore(database), SqlJobQueries(database)
    for number in range(COUNT):
        id_ = id_of(number)
        job = new_job(id_, PLAN, 1000 + number // 2)
        record = JobRecord(job, f"user{number % 4}", f"job-{number}", ("a", "b")[number % 2], 0, SPEC)
        record = replace(record, priority_class=(None, "prod", "oppo")[number % 3])
        await store.add_job(NewJob(record, "", number % 5, Event(id_, 1000, "Submitted", "it was", 0)), None)
        ended = {"phase": "succeeded", "ended_at_ms": 5000 + number % 7} if number % 3 else {}
        change = sa.update(jobs).where(jobs.c.id == id_).values(attempt=number % 2, **ended)
        await database.write(lambda connection, change=change: connection.execute(change))
        if number % 10 == 0:
            await queries.set_tag(id_, "ten")
        if number % 15 == 0:
            await queries.set_tag(id_, "fifteen")
    return queries


def key(row: JobRow, order: str) -> str | int | None:
    values: dict[str, str | int | None] = {
        "jobName": row.name, "submissionTime": row.submitted_at_ms, "username": row.user, "vc": row.virtual_cluster,
        "retries": row.attempt, "totalTaskNumber": row.tasks_total,
        "totalGpuNumber": row.gpus_total, "state": JOB_STATES[JobPhase(row.phase)].state,
        "completionTime": row.ended_at_ms, "jobPriority": row.priority_class,
    }  # fmt: skip
    return values[order]


def is_in_order(rows: tuple[JobRow, ...], where: JobFilter) -> bool:
    """Return whether rows are sorted, those without a value last ascending and first descending, then by id."""
    for first, second in itertools.pairwise(rows if where.is_ascending else rows[::-1]):
        one, two = (key(row, where.order) for row in (first, second))
        if one == two:
            if first.id >= second.id:
                return False
        elif one is None or (two is not None and one > two):  # type: ignore[operator]
            return False
    return True


async def pages(queries: SqlJobQueries, where: JobFilter) -> list[JobPage]:
    found = [await queries.jobs(where, count=True)]
    while found[-1].end is not None:
        found.append(await queries.jobs(replace(where, after=found[-1].end), count=True))
    return found


async def test_every_order_is_one_and_its_pages_make_the_whole(queries: SqlJobQueries) -> None:
    filters = ({}, {"keyword": "b-1"}, {"users": ("user1",)}, {"users": ("user1", "user2")})
    for order, is_ascending, some in itertools.product(ORDERS, (True, False), filters):
        where = JobFilter(order=order, is_ascending=is_ascending, **some)  # type: ignore[arg-type]
        whole = await queries.jobs(where, count=True)
        assert whole.total == len(whole.jobs) > 10
        assert is_in_order(whole.jobs, where), where
        found = await pages(queries, replace(where, limit=13))
        assert tuple(row for page in found for row in page.jobs) == whole.jobs
        assert {page.total for page in found} == {whole.total}
        cut = await queries.jobs(replace(where, offset=3, limit=5), count=True)
        assert (cut.jobs, cut.total) == (whole.jobs[3:8], whole.total)
        beyond = await queries.jobs(replace(where, offset=1000, limit=5), count=True)
        assert (beyond.jobs, beyond.total, beyond.end) == ((), whole.total, None)


async def test_jobs_are_listed_in_the_order_of_states_by_the_names_of_these(
    database: Database, queries: SqlJobQueries
) -> None:
    phases = [stored_phase(phase) for phase in JobPhase]
    for number in range(COUNT):
        change = sa.update(jobs).where(jobs.c.id == id_of(number)).values(phase=phases[number % len(phases)])
        await database.write(lambda connection, change=change: connection.execute(change))
    for where in (JobFilter(order="state"), JobFilter(order="state", is_ascending=True)):
        whole = await queries.jobs(where, count=True)
        assert is_in_order(whole.jobs, where)
        found = await pages(queries, replace(where, limit=7))
        assert tuple(row for page in found for row in page.jobs) == whole.jobs


FILTERED: tuple[tuple[JobFilter, list[int]], ...] = (
    (JobFilter(tags_any=("ten",)), [n for n in range(COUNT) if n % 10 == 0]),
    (JobFilter(tags_any=("ten", "fifteen")), [n for n in range(COUNT) if n % 10 == 0 or n % 15 == 0]),
    (JobFilter(tags_none=("ten",)), [n for n in range(COUNT) if n % 10]),
    (JobFilter(tags_any=("ten",), tags_none=("fifteen",)), [10, 20, 40, 50]),
    (JobFilter(phases=("queued",), users=("user0",)), [n for n in range(COUNT) if n % 12 == 0]),
    (JobFilter(phases=("queued", "succeeded"), virtual_clusters=("b",)), list(range(1, COUNT, 2))),
    (JobFilter(phases=("queued", "running"), keyword="job-3"), [3, 30, 33, 36, 39]),
    (JobFilter(keyword="ser1"), list(range(1, COUNT, 4))),
    (JobFilter(keyword="user"), list(range(COUNT))),
    (JobFilter(keyword="b"), list(range(COUNT))),
    (JobFilter(keyword="USER1"), []),
    (JobFilter(submitted_from_ms=1002, submitted_to_ms=1004), [4, 5, 6, 7]),
    (JobFilter(priority_classes=(None, "oppo"), users=("user3",)), [n for n in range(3, COUNT, 4) if n % 3 != 1]),
    (JobFilter(is_archived=True), []),
)


async def test_filters_find_and_count_the_same_whatever_the_order(queries: SqlJobQueries) -> None:
    for (where, numbers), order in itertools.product(FILTERED, ("submissionTime", "jobName", "completionTime")):
        page = await queries.jobs(replace(where, order=order), count=True)
        assert sorted(int(row.name[4:]) for row in page.jobs) == numbers, (where, order)
        assert page.total == len(numbers)


async def test_a_word_in_the_names_of_more_owners_than_are_looked_up_finds_the_same(
    queries: SqlJobQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await queries.jobs(JobFilter(keyword="user"), count=True)
    monkeypatch.setattr("openpai.store.queries.OWNERS_MAX", 3)
    assert await queries.jobs(JobFilter(keyword="user"), count=True) == found


async def test_an_archived_job_leaves_its_name_to_another(database: Database, queries: SqlJobQueries) -> None:
    old = await queries.job("user1", "job-1")
    assert old is not None
    assert not await queries.archive(id_of(0), 9000)
    assert await queries.archive(old.id, 9000)
    assert await queries.job("user1", "job-1") is None
    assert await queries.job_of_id(old.id) == replace(old, archived_at_ms=9000)
    assert [row.id for row in (await queries.jobs(JobFilter(is_archived=True), count=True)).jobs] == [old.id]
    assert (await queries.jobs(JobFilter(), count=True)).total == COUNT - 1
    record = JobRecord(new_job("f" * 32, PLAN, 9000), "user1", "job-1", "a", 0, SPEC)
    await SqlJobStore(database).add_job(NewJob(record, "", 0, Event("f" * 32, 9000, "Submitted", "it was", 0)), None)
    with pytest.raises(Refused, match="name"):
        await queries.unarchive(old.id)
    assert (await queries.job_of_id(old.id)) == replace(old, archived_at_ms=9000)


async def test_a_deleted_job_leaves_nothing_but_what_it_used(database: Database, queries: SqlJobQueries) -> None:
    id_ = id_of(10)
    attempt = {
        "job": id_, "job_attempt": 0, "role": "worker", "task_index": 0, "attempt": 0, "phase": "succeeded",
        "retries_counted": 0, "retries_free": 0, "granted_at_ms": 1000, "ended_at_ms": 2000,
    }  # fmt: skip
    await database.write(lambda connection: connection.execute(task_attempts.insert(), attempt))
    assert await queries.attempt_keys(id_) == (AttemptKey(id_, 0, "worker", 0, 0),)
    assert not await queries.delete(id_of(0))
    assert await queries.delete(id_)
    assert not await queries.delete(id_)
    assert await queries.job_of_id(id_) is None
    for table in (events, tags, task_attempts):
        count = sa.select(sa.func.count()).select_from(table).where(table.c.job == id_)
        assert await database.read(lambda connection, count=count: connection.execute(count).scalar_one()) == 0


async def test_a_total_that_cost_much_is_believed_for_a_while() -> None:
    now_s = 0.0
    cost_s = 0.1
    counts = itertools.count(1)

    async def count() -> Counted:
        nonlocal now_s
        # Whatever it costs, it waits long for its turn.
        now_s += 1.0
        return Counted(next(counts), cost_s)

    totals = Totals(lambda: now_s)
    assert [await totals.of("all", count), await totals.of("all", count)] == [1, 1]
    assert await totals.of("others", count) == 2
    now_s += 2.0
    cost_s = 0.01
    assert [await totals.of("all", count), await totals.of("all", count)] == [3, 4]


async def test_the_newest_jobs_are_read_off_an_index_that_holds_all_a_list_needs(
    database: Database, queries: SqlJobQueries
) -> None:
    asked: list[tuple[str, Any]] = []
    sa.event.listen(
        database.engine,
        "before_cursor_execute",
        lambda _1, _2, statement, values, _3, _4: asked.append((statement, values)),
    )
    await queries.jobs(JobFilter(limit=5), count=False)
    statement, values = next(each for each in asked if "ORDER BY" in each[0])

    def explain(connection: sa.Connection) -> str:
        # PostgreSQL would read so few rows one after the other.
        if not database.is_sqlite:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        how = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
        return "\n".join(str(row) for row in connection.exec_driver_sql(how + statement, values))

    plan = await database.read(explain)
    assert "ix_jobs_listing" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan


async def test_the_first_job_of_a_sweep_that_is_not_archived_stands_for_it(database: Database) -> None:
    store, queries = SqlJobStore(database), SqlJobQueries(database)
    for number in range(1, 12):
        id_ = f"{100 - number:032x}"
        record = JobRecord(new_job(id_, PLAN, 1000), "ann", f"train-{number}", "a", 0, SPEC)
        tagged = tags_of(Membership("train", number, 11, {}))
        await store.add_job(NewJob(record, "", 0, Event(id_, 1000, "Submitted", "it was", 0), tags=tagged), None)
    await database.write(lambda connection: connection.execute(sa.update(jobs).values(phase="succeeded")))

    async def lines() -> list[str]:
        found = await queries.jobs(JobFilter(tags_none=(LATER_TAG,)), count=False)
        return [row.name for row in found.jobs]

    def id_of_job(number: int) -> str:
        return f"{100 - number:032x}"

    assert await lines() == ["train-1"]
    for number in range(1, 10):
        assert await queries.archive(id_of_job(number), 2000)
    assert await lines() == ["train-10"]
    await queries.unarchive(id_of_job(3))
    assert await lines() == ["train-3"]
    await queries.unarchive(id_of_job(2))
    assert await lines() == ["train-2"]
    assert await queries.delete(id_of_job(2))
    assert await lines() == ["train-3"]
    assert await queries.archive(id_of_job(10), 2000)
    assert await lines() == ["train-3"]
