"""Nodes whose clocks are wrong: tasks start and end when they do by the server's clock, and time limits hold."""

from __future__ import annotations

import pytest

from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Task, TaskId, TaskPhase
from openpai.orchestrator.observing import times_of
from openpai.ports.backend import TaskSeen
from tests.unit.orchestrator.servers import Servers, live

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
KEY = AttemptKey("job", 0, "worker", 0, 0)
WRONG = pytest.mark.parametrize("ahead_ms", [-HOUR_MS, -900, 0, 900, HOUR_MS])


@WRONG
def test_a_task_starts_after_its_grant_and_runs_as_long_as_its_node_says(ahead_ms: int) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", command="sleep 100")
        await servers.in_phase("train", "succeeded")
        job = await servers.row("train")
        assert job.started_at_ms is not None
        assert job.ended_at_ms is not None
        assert 0 <= job.started_at_ms - job.submitted_at_ms < 5_000
        assert 100_000 <= job.ended_at_ms - job.started_at_ms < 102_000
        assert job.ended_at_ms <= servers.clock.now_ms()

    live(story, ahead_ms=ahead_ms)


@WRONG
def test_a_time_limit_is_as_long_as_it_says(ahead_ms: int) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", extras={"timeLimitMinutes": 10})
        await servers.in_phase("train", "running")
        took_s = await servers.in_phase("train", "failed", within_s=2_000)
        assert 595 <= took_s <= 640

    live(story, ahead_ms=ahead_ms)


@WRONG
def test_an_end_that_is_reported_with_its_start_keeps_its_length(ahead_ms: int) -> None:
    task = Task(TaskId("worker", 0), TaskPhase.STARTING, granted_at_ms=NOW_MS - 60_000)
    report = ExitReport(0, started_at_ms=NOW_MS - 59_000 + ahead_ms, ended_at_ms=NOW_MS - 1_000 + ahead_ms)
    started_at_ms, ended_at_ms = times_of(task, TaskSeen(KEY, 1, None, report), NOW_MS)
    assert started_at_ms is not None
    assert NOW_MS - 60_000 <= started_at_ms < ended_at_ms <= NOW_MS
    assert ended_at_ms - started_at_ms == 58_000


@WRONG
def test_a_task_whose_node_is_lost_ends_when_that_is_found(ahead_ms: int) -> None:
    task = Task(TaskId("worker", 0), TaskPhase.RUNNING, granted_at_ms=NOW_MS - 60_000, started_at_ms=NOW_MS - 59_000)
    gone = ExitReport(137, ExitReason.LOST, "it vanished", ended_at_ms=NOW_MS)
    seen = TaskSeen(KEY, 1, NOW_MS - 59_000 + ahead_ms, gone)
    assert times_of(task, seen, NOW_MS) == (NOW_MS - 59_000, NOW_MS)
