"""The account of use against an accountant who watches random lives of jobs and writes down who holds what.

Jobs are granted, retried in place and elsewhere, preempted, stopped, started again and deleted, over midnights and the
ends of months, with and without GPUs. The accountant looks at nothing but what each job holds after each step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import pytest

from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import (
    Fact,
    Preempted,
    RetryDue,
    StartRequested,
    StopRequested,
    TaskExited,
    TasksGranted,
    TaskStarted,
)
from openpai.lifecycle.model import (
    AttemptKey,
    ExitReason,
    ExitReport,
    JobPhase,
    Plan,
    RolePlan,
    Task,
    TaskId,
    TaskPhase,
)
from openpai.lifecycle.stepping import new_job, step
from openpai.orchestrator.changes import build_change
from openpai.ports.store import Event, JobRecord, NewJob, Saved, Slot
from openpai.ports.usage import UseRow
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.queries import SqlJobQueries
from openpai.store.usage import SqlUsageStore
from tests.contracts.held import SPEC

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STEPS = 60
JOBS = 12

Sums = dict[tuple[str, str, str], list[float]]


def _ms(year: int, month: int, day: int = 1) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000


# The end of a month that is also the end of a year, and the night in which clocks go forward in much of Europe.
BEGINS = (_ms(2023, 12, 20), _ms(2024, 3, 25))


@dataclass(slots=True)
class Accountant:
    """Writes down from when to when each attempt held what."""

    open: dict[AttemptKey, tuple[int, JobRecord, Slot]] = field(default_factory=dict)
    closed: list[tuple[int, int, JobRecord, Slot]] = field(default_factory=list)

    def look(self, record: JobRecord, now_ms: int) -> None:
        held = {record.job.key(record.job.tasks[id_]): slot for id_, slot in record.slots.items()}
        for key in [key for key in self.open if key.job == record.job.id and key not in held]:
            since_ms, of, slot = self.open.pop(key)
            self.closed.append((since_ms, now_ms, of, slot))
        for key, slot in held.items():
            self.open.setdefault(key, (now_ms, record, slot))

    def sums(self, from_ms: int, to_ms: int) -> Sums:
        """Count day by day; an attempt counts as one on the first day it shows."""
        sums: Sums = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
        running = [(since_ms, to_ms, of, slot) for since_ms, of, slot in self.open.values()]
        for since_ms, until_ms, of, slot in (*self.closed, *running):
            at, end, first = max(since_ms, from_ms), min(until_ms, to_ms), 1
            while at < end:
                day = datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
                until = min((at // DAY_MS + 1) * DAY_MS, end)
                hours = (until - at) / HOUR_MS
                row = sums[day, of.user, of.virtual_cluster]
                for place, amount in enumerate((slot.gpus, slot.cpus, slot.memory_mb / 1024)):
                    row[place] += amount * hours
                row[3] += first
                at, first = until, 0
        return sums


class Lives:
    """Random lives of jobs in a store, in one line of time."""

    def __init__(self, database: Database, chance: Random, begins_ms: int, *, is_steady: bool = True) -> None:
        self.store = SqlJobStore(database)
        self.queries = SqlJobQueries(database)
        self.chance = chance
        self.now_ms = self.latest_ms = begins_ms
        self.is_steady = is_steady
        self.accountant = Accountant()
        self.grants = 0
        self.seen: set[str] = set()

    async def add(self, number: int) -> JobRecord:
        chance, id_ = self.chance, f"{number:032x}"
        roles = tuple(
            RolePlan(name, chance.randint(1, 2), 1, -1, 2) for name in ("ps", "worker")[: chance.randint(1, 2)]
        )
        job = new_job(id_, Plan(roles, 2, chance.random() < 0.5), self.now_ms)
        record = JobRecord(job, chance.choice(("ann", "bob")), f"job-{number}", chance.choice("xy"), 10, SPEC)
        event = Event(id_, self.now_ms, "Submitted", "message", 0)
        await self.store.add_job(NewJob(record, "config", 1, event), None)
        return record

    async def live_on(self, record: JobRecord) -> JobRecord:
        """Let a random thing happen to a job."""
        self.now_ms += self.chance.choice((1, self.chance.randrange(HOUR_MS), self.chance.randrange(2 * DAY_MS)))
        self.latest_ms = max(self.latest_ms, self.now_ms)
        if not self.is_steady and self.chance.random() < 0.3:
            self.now_ms -= self.chance.randrange(DAY_MS)
        fact, slots = self._fact(record)
        stepped = step(record.job, (fact,))
        if stepped.job is record.job:
            return record
        change = build_change(record, stepped, slots, self.now_ms)
        assert await self.store.save([change], None) == (Saved.YES,)
        self.seen.add(type(fact).__name__)
        self.accountant.look(change.after, self.now_ms)
        return change.after

    def _fact(self, record: JobRecord) -> tuple[Fact, dict[TaskId, Slot]]:
        job, now_ms, chance = record.job, self.now_ms, self.chance
        waiting = [task.id for task in job.tasks.values() if task.phase is TaskPhase.WAITING]
        alive = [task for task in job.tasks.values() if task.is_alive]
        luck = chance.random()
        if job.is_final:
            return StartRequested(now_ms, "ann"), {}
        if luck < 0.05:
            return StopRequested(now_ms, "ann"), {}
        if luck < 0.12:
            return Preempted(job.attempt, now_ms, "for others"), {}
        if waiting and job.phase in (JobPhase.QUEUED, JobPhase.STARTING, JobPhase.RUNNING):
            chosen = waiting if job.plan.is_gang else waiting[:1]
            slots = {id_: self._slot() for id_ in chosen}
            return TasksGranted(job.attempt, {id_: slot.grant for id_, slot in slots.items()}, now_ms), slots
        if alive:
            return self._of_task(record, chance.choice(alive)), {}
        return RetryDue(now_ms), {}

    def _of_task(self, record: JobRecord, task: Task) -> Fact:
        key = record.job.key(task)
        if task.phase is TaskPhase.STARTING and self.chance.random() < 0.6:
            return TaskStarted(key, self.now_ms)
        report = self.chance.choice((ExitReport(0), ExitReport(1), ExitReport(-1, ExitReason.LOST), ExitReport(137)))
        return TaskExited(key, report, diagnose(report, ""), self.now_ms)

    def _slot(self) -> Slot:
        self.grants += 1
        chance = self.chance
        amounts = chance.randrange(5), chance.randint(1, 9), chance.randrange(1, 99_999)
        return Slot("n1", "10.0.0.1", (), {}, self.grants, "", *amounts)


def _describe(rows: tuple[UseRow, ...]) -> Sums:
    return {
        (row.day, row.user, row.virtual_cluster): [
            row.gpu_hours, row.cpu_hours, row.memory_gb_hours, float(row.task_attempts),
        ]
        for row in rows
    }  # fmt: skip


@pytest.mark.parametrize("begins_ms", BEGINS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
async def test_the_usage_is_what_an_observer_counts(database: Database, begins_ms: int, seed: int) -> None:
    lives = Lives(database, Random(seed), begins_ms)
    usage = SqlUsageStore(database)
    records = [await lives.add(number) for number in range(JOBS)]
    for turn in range(STEPS):
        place = lives.chance.randrange(JOBS)
        records[place] = await lives.live_on(records[place])
        if turn % 20 == 19:
            await _check(usage, lives, begins_ms)
    assert lives.seen >= {"TasksGranted", "TaskStarted", "TaskExited", "Preempted", "StopRequested"}

    gone = [record for record in records if record.job.is_final]
    for record in gone:
        assert await lives.queries.delete(record.job.id)
    await _check(usage, lives, begins_ms)


@pytest.mark.parametrize("begins_ms", BEGINS)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3))])
async def test_a_clock_that_is_set_back_makes_no_hours_and_takes_none(
    database: Database, begins_ms: int, seed: int
) -> None:
    lives = Lives(database, Random(seed), begins_ms, is_steady=False)
    usage = SqlUsageStore(database)
    records = [await lives.add(number) for number in range(JOBS)]
    for _ in range(STEPS):
        place = lives.chance.randrange(JOBS)
        records[place] = await lives.live_on(records[place])
    assert any(until_ms < since_ms for since_ms, until_ms, _, _ in lives.accountant.closed)
    await _check(usage, lives, begins_ms)
    for record in records:
        if record.job.is_final:
            assert await lives.queries.delete(record.job.id)
    await _check(usage, lives, begins_ms)


async def _check(usage: SqlUsageStore, lives: Lives, begins_ms: int) -> None:
    now_ms = lives.latest_ms
    first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    month_ms = int(first.timestamp()) * 1000
    for from_ms in (begins_ms, month_ms):
        found, expected = _describe(await usage.use(from_ms, now_ms)), lives.accountant.sums(from_ms, now_ms)
        if lives.is_steady:
            assert found.keys() == expected.keys()
        # What ended before it began counts as a run, and held nothing.
        assert not any(hours for key in found.keys() - expected.keys() for hours in found[key][:3])
        for key, amounts in expected.items():
            assert found[key][:3] == pytest.approx(amounts[:3], rel=1e-9, abs=1e-9), key
            if from_ms == begins_ms and lives.is_steady:
                assert found[key][3] == amounts[3], key
    by_user: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (_, user, virtual_cluster), amounts in lives.accountant.sums(month_ms, now_ms).items():
        by_user[user][virtual_cluster] += amounts[0]
    for user in ("ann", "bob"):
        hours = await usage.gpu_hours_this_month(user, now_ms)
        for name in "xy":
            assert hours.get(name, 0.0) == pytest.approx(by_user[user][name], rel=1e-9, abs=1e-9)
