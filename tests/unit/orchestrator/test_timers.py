"""Waits take as long as they were meant to, whatever happens to the wall clock meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from openpai.lifecycle.facts import RetryDue
from openpai.lifecycle.model import JobPhase
from openpai.orchestrator import timers
from openpai.orchestrator.leader import ActiveJobs, Leader, Nudges, Sharing
from openpai.orchestrator.steady_clock import Timer, Timers
from openpai.orchestrator.timers import retry_due
from openpai.ports.store import JobRecord

HOUR_MS = 3_600_000
T0_MS = 1_700_000_000_000


class HandClock:
    """A wall clock that is set by hand; `steady_s` is the clock of the event loop."""

    wall_ms = T0_MS
    steady_s = 50.0

    def now_ms(self) -> int:
        return self.wall_ms

    def pass_s(self, seconds: float) -> None:
        self.steady_s += seconds
        self.wall_ms += round(seconds * 1000)


class Half(SimpleNamespace):
    """The part of the leader's state that the pass uses."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    clock = HandClock()
    monkeypatch.setattr(timers.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: clock.steady_s))
    return clock


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    async def change_jobs(leader: Any, updates: Any) -> None:
        found.append(updates)
        leader.active.records.clear()

    monkeypatch.setattr(timers, "change_jobs", change_jobs)
    return found


def leader_with(clock: HandClock, **job: Any) -> Leader:
    limit_ms = job.pop("time_limit_ms", None)
    plan = SimpleNamespace(is_gang=True)
    blank = {"id": "j", "retry_at_ms": None, "attempt_started_at_ms": None, "phase": JobPhase.QUEUED, "attempt": 0}
    held = SimpleNamespace(plan=plan, outcome=None, tasks={}, **{**blank, **job})
    found = SimpleNamespace(job=held, time_limit_ms=limit_ms)
    policy = SimpleNamespace(delay_max_ms=300_000, conflict_delay_max_ms=900_000)
    parts = {
        "clock": clock,
        "active": ActiveJobs({"j": cast("JobRecord", found)}),
        "policy": policy,
        "sharing": Sharing(),
    }
    return cast("Leader", Half(nudges=Nudges(), timers=Timers(), **parts))


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, -1_000, 0, 1_000, HOUR_MS, 24 * HOUR_MS])
async def test_a_retry_comes_after_its_delay_however_the_clock_is_set(
    clock: HandClock, recorded: list[Any], jump_ms: int
) -> None:
    leader = leader_with(clock, phase=JobPhase.BACKING_OFF, retry_at_ms=T0_MS + 20_000)
    assert await retry_due(leader) == 20_000
    clock.wall_ms += jump_ms
    clock.pass_s(19.9)
    assert await retry_due(leader) == 100
    assert recorded == []
    clock.pass_s(0.1)
    await retry_due(leader)
    [news] = recorded
    [fact] = news["j"].facts
    assert fact == RetryDue(clock.wall_ms, frozenset({T0_MS + 20_000}))
    assert fact.is_for(T0_MS + 20_000)
    assert not fact.is_for(T0_MS + 20_001)


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, 0, HOUR_MS])
async def test_a_time_limit_counts_the_time_that_passed(clock: HandClock, recorded: list[Any], jump_ms: int) -> None:
    running = {"phase": JobPhase.RUNNING, "attempt_started_at_ms": T0_MS}
    leader = leader_with(clock, time_limit_ms=60_000, **running)
    clock.pass_s(1)
    assert await retry_due(leader) == 59_000
    clock.wall_ms += jump_ms
    clock.pass_s(58)
    assert await retry_due(leader) == 1_000
    assert recorded == []
    clock.pass_s(1)
    await retry_due(leader)
    assert [type(fact).__name__ for fact in recorded[0]["j"].facts] == ["TimeLimitReached"]


async def test_a_server_that_starts_after_the_clock_was_set_back_waits_no_longer_than_the_wait_is(
    clock: HandClock, recorded: list[Any]
) -> None:
    leader = leader_with(clock, phase=JobPhase.BACKING_OFF, retry_at_ms=T0_MS + HOUR_MS)
    assert await retry_due(leader) == 900_000
    leader = leader_with(clock, phase=JobPhase.RUNNING, attempt_started_at_ms=T0_MS + HOUR_MS, time_limit_ms=5_000)
    assert await retry_due(leader) == 5_000
    leader = leader_with(clock, phase=JobPhase.BACKING_OFF, retry_at_ms=T0_MS - HOUR_MS)
    await retry_due(leader)
    assert len(recorded) == 1


def test_a_timer_that_is_not_asked_for_any_more_is_forgotten_and_starts_again() -> None:
    known, timer = Timers(), Timer("j", False, 1_000, 5_000)
    assert known.left_ms([timer], 0, 0) == {timer: 1_000}
    assert known.left_ms([], 0, 500) == {}
    assert known.left_ms([timer], 0, 500) == {timer: 1_000}
    assert known.left_ms([replaced := timer._replace(at_ms=9_000)], 0, 500) == {replaced: 5_000}
