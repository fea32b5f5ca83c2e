"""The loops lose nothing between two passes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from openpai.app import loops
from openpai.app.loops import Resync, _news, lead
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.leader import ActiveJobs, Leader, Nudges
from openpai.ports.backend import TaskSeen
from openpai.ports.store import LeaseLost
from openpai.system.supervision import failures


class OneNews:
    """A backend that reports one change on request."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.seen = TaskSeen(AttemptKey("j", 0, "worker", 0, 0), 1, 5)
        self.error: Exception | None = None

    async def news(self) -> tuple[TaskSeen, ...]:
        await self.ready.wait()
        self.ready.clear()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return (self.seen,)


class Half:
    """The part of the leader's state that the news loop uses."""

    def __init__(self) -> None:
        self.backend = OneNews()
        self.active = ActiveJobs()
        self.nudges = Nudges()
        self.must_resync = False


async def test_news_that_comes_while_a_turn_has_taken_the_rest_is_kept_for_the_next() -> None:
    leader = Half()
    listening = asyncio.create_task(_news(cast("Leader", leader)))
    await asyncio.sleep(0)
    leader.active.heard = []
    leader.backend.ready.set()
    await asyncio.wait_for(leader.nudges.work.wait(), 60)
    assert leader.active.heard == [leader.backend.seen]
    listening.cancel()


class OneTime:
    """A scheduler that has something to decide at one time, and the clock that tells how far that is."""

    def __init__(self, again_ms: int | None) -> None:
        self.again_ms = again_ms

    def look_again_ms(self) -> int | None:
        return self.again_ms

    def now_ms(self) -> int:
        return 1_000


class WholeLeader:
    """A leader in which nothing happens: every pass is replaced."""

    def __init__(self, again_ms: int | None = None) -> None:
        self.scheduler = self.steady = OneTime(again_ms)
        self.turns, self.turn_s = 0, 0.0
        self.backend = OneNews()
        self.admits = None
        self.active = ActiveJobs()
        self.nudges = Nudges()
        self.must_resync = False


@pytest.mark.parametrize("end", [LeaseLost("epoch 1 is over"), Resync()])
async def test_an_end_of_leading_comes_out_as_itself_and_not_in_a_group(
    monkeypatch: pytest.MonkeyPatch, end: Exception
) -> None:
    async def lost(*_: object) -> None:
        raise end

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(loops, "RENEW_EVERY_S", 0)
    monkeypatch.setattr(loops, "_renew", lost)
    monkeypatch.setattr(loops, "retry_due", nothing)
    with pytest.raises(type(end)) as caught:
        await lead(cast("Leader", WholeLeader()), "me", nothing)
    assert caught.value is end


async def test_a_leader_decides_before_a_start_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = asyncio.Event()
    may_end = asyncio.Event()
    begun = asyncio.Event()

    async def turn(leader: Leader) -> bool:
        leader.nudges.work.clear()
        begun.set()
        await may_end.wait()
        return False

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(loops, "turn", turn)
    monkeypatch.setattr(loops, "retry_due", nothing)
    leading = asyncio.create_task(lead(cast("Leader", WholeLeader()), "me", nothing, decided.set))
    await asyncio.wait_for(begun.wait(), 60)
    assert not decided.is_set()
    may_end.set()
    await asyncio.wait_for(decided.wait(), 60)
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading


async def test_a_loop_that_is_nudged_while_it_is_cancelled_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = asyncio.Event()

    async def due_later(*_: Any) -> int:
        leader.nudges.timers.clear()
        waits.set()
        return 100_000

    leader = WholeLeader()
    monkeypatch.setattr(loops, "retry_due", due_later)
    running = asyncio.create_task(loops._timers(cast("Leader", leader)))
    await waits.wait()
    await asyncio.sleep(0)
    leader.nudges.timers.set()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running], timeout=60)
    assert running.cancelled()


async def test_a_backend_that_fails_once_is_listened_to_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "PAUSE_AFTER_ERROR_S", 0)
    leader = Half()
    leader.backend.error = RecursionError("too deep")
    listening = asyncio.create_task(_news(cast("Leader", leader)))
    before = failures().get("a pass of the leader", 0)
    leader.backend.ready.set()
    await asyncio.wait_for(leader.nudges.work.wait(), 60)
    assert failures()["a pass of the leader"] == before + 1
    leader.nudges.work.clear()
    leader.backend.ready.set()
    await asyncio.wait_for(leader.nudges.work.wait(), 60)
    assert leader.active.heard == [leader.backend.seen]
    listening.cancel()


@pytest.mark.parametrize("again_ms", [1_020, 900], ids=["soon", "overdue"])
async def test_a_decision_that_is_due_by_time_alone_is_made(monkeypatch: pytest.MonkeyPatch, again_ms: int) -> None:
    decided = asyncio.Event()

    async def turn(_: Leader) -> bool:
        leader.scheduler.again_ms = None
        decided.set()
        return False

    leader = WholeLeader(again_ms)
    monkeypatch.setattr(loops, "turn", turn)
    monkeypatch.setattr(loops, "LOOK_AGAIN_MIN_S", 0.01)
    turning = asyncio.create_task(loops._turns(cast("Leader", leader)))
    await asyncio.wait_for(decided.wait(), 60)
    await asyncio.sleep(0)
    assert leader.turns == 1, "without another time it waits for a nudge"
    turning.cancel()
