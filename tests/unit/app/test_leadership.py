"""A server that cannot lead for want of its database tries on, says so once, and leaves in peace."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from openpai.app import leadership, loops
from openpai.app.leadership import Leadership
from openpai.app.loops import Resync
from openpai.orchestrator.leader import Nudges
from openpai.protocol.errors import Unavailable
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from tests.clocks import HandClock


class Away(SqlJobStore):
    """A store whose database does not answer; its third query signals the test."""

    def __init__(self) -> None:
        super().__init__(Database("sqlite://", inline=True))
        self.asked = 0
        self.is_enough = asyncio.Event()

    async def lease(self, *_: Any, **__: Any) -> int | None:
        self.asked += 1
        if self.asked == 3:
            self.is_enough.set()
        raise Unavailable("the database does not answer")

    async def release_lease(self, holder: str) -> None:
        raise Unavailable("the database does not answer")


class NobodyAsks:
    """Commands that no client calls."""

    leader = None


async def test_a_leader_without_its_database_retries_logs_it_once_and_ends_cleanly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leadership, "PAUSE_AFTER_ERROR_S", 0)
    store, none = Away(), cast("Any", None)
    leads = Leadership(store, HandClock(0), cast("Any", NobodyAsks()), none, holder="h", housekeeping=none)
    with capture_logs() as logs:
        running = asyncio.create_task(leads.run())
        await asyncio.wait_for(store.is_enough.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [entry["event"] for entry in logs] == ["this server cannot lead yet, and tries again"]
    assert logs[0]["advice"]


async def test_a_leader_with_outdated_jobs_resigns_at_once_when_the_database_fails() -> None:
    class Doubtful:
        must_resync = False
        nudges = Nudges()

    leader = Doubtful()

    async def one_pass() -> None:
        leader.must_resync = True
        raise Unavailable("the database does not answer")

    with pytest.raises(Resync):
        await loops._guarded(cast("Any", leader), one_pass())
