"""What the store promises, asked of SQLite and of PostgreSQL alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, Token, User
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import Fact, StopRequested, TaskExited, TasksGranted, TaskStarted
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, JobPhase, Plan, RolePlan, TaskId
from openpai.lifecycle.stepping import new_job, step
from openpai.orchestrator.changes import build_change
from openpai.ports.queries import JobFilter
from openpai.ports.store import AlreadySubmitted, Change, Event, JobRecord, LeaseLost, NewJob, Saved, Slot
from openpai.protocol.errors import Refused
from openpai.store.accounts import SqlAccountStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.opening import migrate
from openpai.store.queries import SqlJobQueries
from openpai.store.schema import metadata
from openpai.store.vault import Vault, key_from
from tests.contracts.held import SPEC

PLAN = Plan((RolePlan("ps", 1, 1, -1, 0), RolePlan("worker", 2, 1, 2, 1)), 1, True)


def new(name: str, *, user: str = "ann", at_ms: int = 1000, gpus: int = 0, priority_class: str | None = None) -> NewJob:
    id_ = f"{abs(hash((user, name))):032x}"[:32]
    job = new_job(id_, PLAN, at_ms)
    record = JobRecord(job, user, name, "default", 10, SPEC, priority_class=priority_class)
    return NewJob(record, "config: masked\n", gpus, Event(id_, at_ms, "Submitted", "ann submitted the job", 0))


async def test_events_are_forgotten_by_their_age_and_the_job_stays(database: Database) -> None:
    store, queries = SqlJobStore(database), SqlJobQueries(database)
    old, young = new("old", at_ms=7), new("young", at_ms=9)
    await store.add_job(old, None)
    await store.add_job(young, None)
    assert (await store.forget_events(7), await store.forget_events(8), await store.forget_events(8)) == (0, 1, 0)
    assert await queries.events(old.record.job.id) == ()
    assert len(await queries.events(young.record.job.id)) == 1
    assert await store.load(old.record.job.id) is not None


async def test_a_key_stands_for_one_submission_until_it_is_forgotten(database: Database) -> None:
    store = SqlJobStore(database)
    first, other = (replace(new(name, at_ms=7), idempotency_key="k") for name in ("train", "other"))
    await store.add_job(first, None)
    with pytest.raises(AlreadySubmitted) as known:
        await store.add_job(other, None)
    assert (known.value.job, known.value.name) == (first.record.job.id, "train")
    assert await store.load(other.record.job.id) is None
    assert await store.submitted("ann", "k") == (first.record.job.id, "train")
    assert await store.submitted("bob", "k") is None
    assert (await store.forget_keys(7), await store.forget_keys(8), await store.forget_keys(8)) == (0, 1, 0)
    await store.add_job(other, None)
    assert await store.submitted("ann", "k") == (other.record.job.id, "other")


def slots(*devices: int, node: str = "n1", grant: int = 1) -> dict[TaskId, Slot]:
    return {
        id_: Slot(node, "10.0.0.1", (device,), {"ssh": (15000 + device,)}, grant)
        for id_, device in zip((TaskId("ps", 0), TaskId("worker", 0), TaskId("worker", 1)), devices, strict=True)
    }


def change(before: JobRecord, *facts: Fact, granted: dict[TaskId, Slot] | None = None) -> Change:
    return build_change(before, step(before.job, facts), granted or {}, 2000)


def grant(before: JobRecord, held: dict[TaskId, Slot]) -> Change:
    grants = {id_: slot.grant for id_, slot in held.items()}
    return change(before, TasksGranted(before.job.attempt, grants, 2000), granted=held)


async def submitted(store: SqlJobStore, name: str, **options: object) -> JobRecord:
    submission = new(name, **options)  # type: ignore[arg-type]
    await store.add_job(submission, None)
    return submission.record


async def test_what_is_saved_comes_back_the_same(database: Database) -> None:
    store = SqlJobStore(database)
    before = await submitted(store, "train")
    assert await store.load(before.job.id) == before
    granted = grant(before, slots(0, 1, 2))
    assert await store.save([granted], None) == (Saved.YES,)
    assert await store.load(before.job.id) == granted.after
    key = AttemptKey(before.job.id, 0, "worker", 0, 0)
    report = ExitReport(7, ExitReason.EXITED, "message", 1, 2)
    started = TaskStarted(key, 2100)
    failed = change(granted.after, started, TaskExited(key, report, diagnose(report, "x"), 2200))
    assert await store.save([failed], None) == (Saved.YES,)
    assert await store.load(before.job.id) == failed.after
    assert [each.job.id for each in await store.active()] == [before.job.id]
    assert (await store.active())[0] == failed.after


async def test_a_name_is_a_users_own_and_only_once(database: Database) -> None:
    store = SqlJobStore(database)
    first = await submitted(store, "train")
    await submitted(store, "train", user="bob")
    with pytest.raises(Refused, match="already has a job named 'train'") as refused:
        await submitted(store, "train")
    assert refused.value.code == "ConflictJobError"
    assert await store.find("ann", "train") == first.job.id
    assert await store.find("ann", "other") is None


async def test_of_two_changes_from_the_same_version_one_is_stale(database: Database) -> None:
    store = SqlJobStore(database)
    one, other = await submitted(store, "one"), await submitted(store, "other")
    stop = change(one, StopRequested(2000, "ann"))
    assert await store.save([stop], None) == (Saved.YES,)
    both = [change(one, StopRequested(2500, "bob")), change(other, StopRequested(2500, "bob"))]
    assert await store.save(both, None) == (Saved.STALE, Saved.YES)
    assert (await store.load(one.job.id)) == stop.after


async def test_a_device_that_is_granted_is_refused_and_free_again_when_given_back(database: Database) -> None:
    store = SqlJobStore(database)
    one, other = await submitted(store, "one"), await submitted(store, "other")
    mine = grant(one, slots(0, 1, 2))
    theirs = grant(other, slots(5, 2, 6, grant=2))
    assert await store.save([mine, theirs], None) == (Saved.YES, Saved.DEVICE_TAKEN)
    assert await store.load(other.job.id) == other
    assert await store.save([theirs], None) == (Saved.DEVICE_TAKEN,)
    keys = [mine.after.job.key(task) for task in mine.after.job.tasks.values()]
    ends = [TaskExited(key, ExitReport(0), diagnose(ExitReport(0)), 3000) for key in keys]
    assert await store.save([change(mine.after, *ends)], None) == (Saved.YES,)
    assert await store.save([theirs], None) == (Saved.YES,)


async def test_only_the_newest_lease_may_write(database: Database) -> None:
    steady_ms = 0
    store = SqlJobStore(database, lambda: steady_ms)
    job = await submitted(store, "train")
    assert await store.lease("here/1", 0, 100) == 1
    assert await store.lease("there/1", 50, 100) is None
    assert await store.lease("here/1", 50, 100) == 1
    assert await store.lease("here/2", 60, 100) == 2
    with pytest.raises(LeaseLost):
        await store.save([change(job, StopRequested(1, "x"))], 1)
    assert await store.load(job.job.id) == job
    assert await store.save([change(job, StopRequested(1, "x"))], 2) == (Saved.YES,)
    assert await store.lease("there/1", 60, 100) is None
    steady_ms = 99
    assert await store.lease("there/1", 159, 100) is None
    steady_ms = 100
    assert await store.lease("there/1", 160, 100) == 3
    await store.release_lease("there/1")
    assert await store.lease("here/2", 162, 100) == 4


async def test_a_lease_is_watched_and_clocks_are_not_compared(database: Database) -> None:
    steady_ms, hour = 0, 3_600_000
    here, there = SqlJobStore(database, lambda: steady_ms), SqlJobStore(database, lambda: steady_ms + 7)
    assert await here.lease("here/1", 0, 100, "http://here") == 1
    for wall_ms in (hour, -hour, 0, 0, 0):
        # One that is hours ahead or behind takes nothing from a leader that renews, whose clock may stand.
        assert await there.lease("there/1", wall_ms, 100) is None
        assert await there.leader_url(100) == "http://here"
        steady_ms += 60
        assert await here.lease("here/1", 0, 100, "http://here") == 1
    assert await there.lease("there/1", 0, 100) is None
    steady_ms += 99
    assert await there.leader_url(100) == "http://here"
    steady_ms += 1
    assert await there.leader_url(100) == ""
    # A leader that died is followed, though its clock was an hour ahead.
    assert await there.lease("there/1", -hour, 100) == 2


async def test_the_inbox_names_each_touched_job_once(database: Database) -> None:
    store = SqlJobStore(database)
    submission = new("train")
    await store.add_job(submission, None)
    await store.save([change(submission.record, StopRequested(1, "x"))], None, notify=True)
    assert await store.lease("here/1", 0, 100) == 1
    assert await store.take_inbox(10, 1) == (submission.record.job.id,)
    assert await store.take_inbox(10, 1) == ()


async def test_a_leader_that_was_replaced_neither_keeps_a_submission_nor_takes_the_inbox(database: Database) -> None:
    store = SqlJobStore(database)
    assert await store.lease("here/1", 0, 100) == 1
    first, second = new("first"), new("second")
    await store.add_job(first, 1)
    await store.release_lease("here/1")
    assert await store.lease("there/1", 200, 100) == 2
    await store.add_job(second, 1)
    with pytest.raises(LeaseLost):
        await store.take_inbox(10, 1)
    with pytest.raises(LeaseLost):
        await store.check_lease(1)
    await store.check_lease(2)
    assert await store.take_inbox(10, 2) == (second.record.job.id,)


async def test_jobs_that_are_alike_share_what_is_read_of_them(database: Database) -> None:
    store = SqlJobStore(database)
    for name in ("one", "other"):
        await submitted(store, name)
    one, other = [record.job for record in await store.active()]
    assert one.plan is other.plan
    assert one.tasks.keys() == other.tasks.keys()
    assert all(one.tasks[id_] is other.tasks[id_] for id_ in one.tasks)


async def test_many_writers_at_once_all_get_their_own_answer(database: Database) -> None:
    store = SqlJobStore(database)
    names = [f"job{i % 40}" for i in range(80)]
    answers = await asyncio.gather(*(submitted(store, name) for name in names), return_exceptions=True)
    assert sum(isinstance(answer, Refused) for answer in answers) == 40
    assert len(await store.active()) == 40


async def test_lists_filter_sort_and_count(database: Database) -> None:
    store, queries = SqlJobStore(database), SqlJobQueries(database)
    for number, (user, name, gpus, class_) in enumerate(
        [
            ("ann", "Alpha", 4, "prod"),
            ("ann", "beta", 1, None),
            ("bob", "alpha", 2, "oppo"),
            ("cid", "delta", 8, "prod"),
        ]
    ):
        await submitted(store, name, user=user, at_ms=1000 + number, gpus=gpus, priority_class=class_)
    beta = await queries.job("ann", "beta")
    assert beta is not None
    await queries.set_tag(beta.id, "keep")
    await queries.set_tag(beta.id, "keep")

    async def names(where: JobFilter) -> list[str]:
        return [f"{row.user}~{row.name}" for row in (await queries.jobs(where, count=False)).jobs]

    assert await names(JobFilter()) == ["cid~delta", "bob~alpha", "ann~beta", "ann~Alpha"]
    assert await names(JobFilter(users=("ann", "cid"))) == ["cid~delta", "ann~beta", "ann~Alpha"]
    assert await names(JobFilter(keyword="alpha")) == ["bob~alpha"]
    assert await names(JobFilter(keyword="ann")) == ["ann~beta", "ann~Alpha"]
    assert await names(JobFilter(priority_classes=("prod", None), users=("ann",))) == ["ann~beta", "ann~Alpha"]
    assert await names(JobFilter(phases=("stopped",))) == []
    assert await names(JobFilter(tags_any=("keep", "other"))) == ["ann~beta"]
    assert await names(JobFilter(tags_none=("keep",), users=("ann",))) == ["ann~Alpha"]
    assert await names(JobFilter(order="totalGpuNumber", is_ascending=True)) == [
        "ann~beta", "bob~alpha", "ann~Alpha", "cid~delta",
    ]  # fmt: skip
    assert (await names(JobFilter(order="jobPriority", is_ascending=True)))[-1] == "ann~beta"
    assert (await names(JobFilter(order="jobPriority")))[0] == "ann~beta"
    page = await queries.jobs(JobFilter(offset=1, limit=2), count=True)
    assert ([row.name for row in page.jobs], page.total) == (["alpha", "beta"], 4)
    assert page.jobs[1].tags == ("keep",)
    assert await queries.remove_tag(beta.id, "keep")
    assert not await queries.remove_tag(beta.id, "keep")


async def test_history_is_kept_attempt_by_attempt(database: Database) -> None:
    store, queries = SqlJobStore(database), SqlJobQueries(database)
    before = await submitted(store, "train")
    granted = grant(before, slots(0, 1, 2))
    job = granted.after.job
    report = ExitReport(1)
    failing = [TaskExited(job.key(task), report, diagnose(report), 2500) for task in job.tasks.values()]
    # The worker's task retry comes first, so its first attempt must be kept beside the second.
    retried = change(granted.after, failing[1])
    ended = change(retried.after, failing[0], failing[2])
    assert await store.save([granted], None) == (Saved.YES,)
    assert await store.save([retried], None) == (Saved.YES,)
    assert await store.save([ended], None) == (Saved.YES,)
    rows = await queries.task_attempts(before.job.id, 0)
    assert [(row.key.role, row.key.index, row.key.task_attempt) for row in rows] == [
        ("ps", 0, 0), ("worker", 0, 0), ("worker", 0, 1), ("worker", 1, 0), ("worker", 1, 1),
    ]  # fmt: skip
    assert rows[1].phase == "failed"
    assert rows[1].slot == slots(0, 1, 2)[TaskId("worker", 0)]
    assert rows[1].report == report
    events = [row.event.reason for row in reversed(await queries.events(before.job.id))]
    assert events[:3] == ["Submitted", "Granted", "TaskRetried"]
    assert {row.event.is_warning for row in await queries.events(before.job.id, "Warning")} == {True}
    assert await queries.config(before.job.id) == "config: masked\n"


async def test_an_ended_attempt_is_remembered_with_its_outcome(database: Database) -> None:
    store, queries = SqlJobStore(database), SqlJobQueries(database)
    before = await submitted(store, "train")
    granted = grant(before, slots(0, 1, 2))
    keys = [granted.after.job.key(task) for task in granted.after.job.tasks.values()]
    report = ExitReport(9)
    ended = change(granted.after, *(TaskExited(key, report, diagnose(report), 2500) for key in (keys[0], *keys[1:])))
    stopped = change(ended.after, StopRequested(2600, "ann"))
    assert await store.save([granted], None) == (Saved.YES,)
    assert await store.save([ended], None) == (Saved.YES,)
    assert ended.after.job.phase is JobPhase.ENDING
    assert await store.save([stopped], None) == (Saved.YES,)
    over = [TaskExited(stopped.after.job.key(t), report, diagnose(report), 2700)
            for t in stopped.after.job.tasks.values() if t.is_alive]  # fmt: skip
    assert await store.save([change(stopped.after, *over)], None) == (Saved.YES,)
    attempts = await queries.job_attempts(before.job.id)
    assert [(each.attempt, each.outcome.code) for each in attempts] == [(0, 9)]
    row = await queries.job("ann", "train")
    assert row is not None
    assert (row.phase, row.ended_at_ms) == ("stopped", 2700)


async def test_users_and_tokens(database: Database) -> None:
    users = SqlAccountStore(database)
    everyone = await users.group(DEFAULT_GROUP)
    assert everyone is not None
    ann = User("ann", "hash", 1, groups=(everyone,))
    await users.add_user(ann)
    assert not ann.is_admin
    with pytest.raises(Refused) as refused:
        await users.add_user(replace(ann, groups=(Group(ADMIN_GROUP),)))
    assert refused.value.code == "ConflictUserError"
    browser, application = Token("b" * 64, "ann", False, 1, 9), Token("a" * 64, "ann", True, 2, None)
    for token in (browser, application):
        await users.add_token(token)
    assert await users.token(browser.digest) == (browser, ann)
    await users.set_password("ann", "new")
    assert await users.tokens("ann") == (application,)
    assert await users.revoke(application.digest)
    assert not await users.revoke(application.digest)
    await users.remove_user("ann")
    assert await users.user("ann") is None
    with pytest.raises(Refused):
        await users.remove_user("ann")


def test_the_migrations_lead_to_the_schema(database: Database) -> None:
    dialect = database.engine.dialect.name

    def is_of_this_dialect(found: object, *_: object) -> bool:
        return getattr(found, "info", {}).get("dialect", dialect) == dialect

    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": is_of_this_dialect})
        assert compare_metadata(context, metadata) == []


def test_opening_twice_is_harmless_and_a_stranger_is_refused(database: Database) -> None:
    migrate(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'ffff'")
    with pytest.raises(Refused, match="newer openpai"):
        migrate(database)


def test_secrets_are_sealed_with_a_key_outside_the_database(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "secret.key"
    vault = Vault(key_from(path))
    sealed = vault.seal({"token": "s3cret", "nested": {"a": [1]}})
    assert sealed is not None
    assert b"s3cret" not in sealed.data
    assert "s3cret" not in repr(sealed)
    assert Vault(key_from(path)).open(sealed) == {"token": "s3cret", "nested": {"a": [1]}}
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(Refused, match="another key"):
        Vault(key_from(path.with_name("other.key"))).open(sealed)
    assert vault.seal({}) is None
