"""Work that is lost counts for its owner, once and for the right reason, in SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import Preempted, StopRequested, TaskExited, TasksGranted, TaskStarted
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Plan, RolePlan, TaskId
from openpai.lifecycle.stepping import new_job
from openpai.ports.store import JobRecord, Slot
from openpai.ports.usage import LentUse
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.usage import SqlUsageStore

from .held import Held, _save, new
from .test_usage import DAY_MS, HOUR_MS, MONDAY_MS

LOST = ExitReport(-101, ExitReason.NODE_LOST)
KILLED = ExitReport(143)


class Two:
    """A job of two tasks with two GPUs each, from its grant on."""

    def __init__(self, database: Database, *, is_gang: bool = True) -> None:
        self.store, self.usage = SqlJobStore(database), SqlUsageStore(database)
        self.is_gang = is_gang
        self.granted = 0
        self.idle: tuple[tuple[int, int], ...] = ()
        self.record: JobRecord | None = None

    async def start(self) -> Two:
        submission = new(1, Held("ann", "vision", MONDAY_MS, None))
        job = new_job(submission.record.job.id, Plan((RolePlan("worker", 2, 1, -1, 0),), 3, self.is_gang), MONDAY_MS)
        self.record = replace(submission.record, job=job)
        await self.store.add_job(replace(submission, record=self.record), None)
        await self.grant(0, 1)
        return self

    async def grant(self, *indices: int, hour: float = 0) -> None:
        record = self.record
        assert record is not None
        at_ms = MONDAY_MS + int(hour * HOUR_MS)
        grants = {TaskId("worker", index): self.granted + index + 1 for index in indices}
        self.granted += 10
        slots = {id_: Slot("n1", "10.0.0.1", (), {}, grant, "", 2, 2, 1024) for id_, grant in grants.items()}
        started = [TaskStarted(self._key(index), at_ms) for index in indices]
        self.record = await _save(
            self.store, record, slots, at_ms, TasksGranted(record.job.attempt, grants, at_ms), *started
        )

    async def say(self, *facts: object, hour: float) -> None:
        assert self.record is not None
        at_ms = MONDAY_MS + int(hour * HOUR_MS)
        self.record = await _save(self.store, self.record, {}, at_ms, *facts, idle=self.idle)  # type: ignore[arg-type]

    async def exit(self, index: int, report: ExitReport, hour: float) -> None:
        ended = TaskExited(self._key(index), report, diagnose(report, ""), MONDAY_MS + int(hour * HOUR_MS))
        await self.say(ended, hour=hour)

    async def preempt(self, hour: float) -> None:
        assert self.record is not None
        await self.say(Preempted(self.record.job.attempt, MONDAY_MS + int(hour * HOUR_MS), "for another"), hour=hour)

    async def lost(self) -> tuple[float, float]:
        rows = await self.usage.use(MONDAY_MS, MONDAY_MS + 5 * DAY_MS)
        assert all((row.user, row.virtual_cluster) == ("ann", "vision") for row in rows)
        return sum(row.gpu_hours_failed for row in rows), sum(row.gpu_hours_preempted for row in rows)

    def _key(self, index: int) -> AttemptKey:
        assert self.record is not None
        job = self.record.job
        return AttemptKey(job.id, job.attempt, "worker", index, job.tasks[TaskId("worker", index)].attempt)


async def test_a_lost_node_loses_the_work_of_the_whole_gang(database: Database) -> None:
    job = await Two(database).start()
    await job.exit(0, LOST, hour=3)
    assert await job.lost() == (0.0, 0.0)
    await job.exit(1, KILLED, hour=4)
    assert await job.lost() == (2 * 3 + 2 * 4, 0.0)


async def test_a_preempted_job_loses_what_it_did_since_its_checkpoint(database: Database) -> None:
    job = await Two(database).start()
    assert job.record is not None
    job.record = replace(job.record, checkpoint_at_ms=MONDAY_MS + 2 * HOUR_MS)
    await job.preempt(hour=5)
    await job.exit(0, KILLED, hour=5)
    # That it could not be killed properly does not make it a failure of the platform.
    await job.exit(1, LOST, hour=6)
    assert await job.lost() == (0.0, 2 * 3 + 2 * 4)


async def test_what_was_idle_is_not_lost_once_more(database: Database) -> None:
    job = await Two(database).start()
    assert job.record is not None
    job.record = replace(job.record, checkpoint_at_ms=MONDAY_MS + 2 * HOUR_MS)
    # From hour 1 to 3, of which only the last is after the checkpoint, and from 4.5 on, when one task is over soon.
    hours = [(1, 3), (4.5, 5.5)]
    job.idle = tuple((MONDAY_MS + int(begin * HOUR_MS), MONDAY_MS + int(end * HOUR_MS)) for begin, end in hours)
    await job.preempt(hour=5)
    await job.exit(0, KILLED, hour=5)
    await job.exit(1, LOST, hour=6)
    assert await job.lost() == (0.0, 2 * (3 - 1 - 0.5) + 2 * (4 - 1 - 1))


async def test_the_idle_time_of_a_task_that_alone_runs_again_is_not_lost(database: Database) -> None:
    job = await Two(database, is_gang=False).start()
    job.idle = ((MONDAY_MS, MONDAY_MS + HOUR_MS),)
    await job.exit(0, LOST, hour=3)
    assert await job.lost() == (4.0, 0.0)


async def test_what_ended_before_the_checkpoint_is_not_lost(database: Database) -> None:
    job = await Two(database).start()
    assert job.record is not None
    await job.exit(0, ExitReport(0), hour=1)
    job.record = replace(job.record, checkpoint_at_ms=MONDAY_MS + 2 * HOUR_MS)
    await job.preempt(hour=3)
    await job.exit(1, KILLED, hour=3)
    assert await job.lost() == (0.0, 2.0)


async def test_a_task_that_alone_runs_again_loses_its_own_work_only(database: Database) -> None:
    job = await Two(database, is_gang=False).start()
    await job.exit(0, LOST, hour=3)
    assert await job.lost() == (6.0, 0.0)
    await job.preempt(hour=4)
    await job.exit(1, KILLED, hour=4)
    assert await job.lost() == (6.0, 8.0)


@pytest.mark.parametrize("report", [ExitReport(1), ExitReport(0)])
async def test_a_job_that_ends_by_itself_loses_nothing(database: Database, report: ExitReport) -> None:
    job = await Two(database).start()
    await job.exit(0, report, hour=1)
    await job.exit(1, report, hour=2)
    assert await job.lost() == (0.0, 0.0)


async def test_a_job_that_its_owner_stops_loses_nothing(database: Database) -> None:
    job = await Two(database).start()
    await job.say(StopRequested(MONDAY_MS + HOUR_MS, "ann", ""), hour=1)
    for index in (0, 1):
        await job.exit(index, LOST, hour=1)
    assert await job.lost() == (0.0, 0.0)


async def test_servers_that_add_the_first_hours_of_a_day_at_once_keep_both(database: Database) -> None:
    usage = SqlUsageStore(database)
    rows = (LentUse("vision", "ann", idle_gpu_ms=HOUR_MS), LentUse("vision", "ann", failed_gpu_ms=HOUR_MS))
    await asyncio.gather(*(usage.add_lent_use([row], MONDAY_MS, None) for row in rows * 3))
    (found,) = await usage.use(MONDAY_MS, MONDAY_MS + DAY_MS)
    assert (found.gpu_hours_idle, found.gpu_hours_failed, found.gpu_hours_preempted) == (3.0, 3.0, 0.0)
