"""The loops lose nothing between two passes."""

from __future__ import annotations

import asyncio
from typing import cast

from openpai.app.loops import _news
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.office import Desk, Nudges, Office
from openpai.ports.backend import TaskSeen


class OneNews:
    """A backend that has one piece of news when it is told to."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.seen = TaskSeen(AttemptKey("j", 0, "worker", 0, 0), 1, 5)

    async def news(self) -> tuple[TaskSeen, ...]:
        await self.ready.wait()
        self.ready.clear()
        return (self.seen,)


class Half:
    """The part of an office that the news loop sees."""

    def __init__(self) -> None:
        self.backend = OneNews()
        self.desk = Desk()
        self.nudges = Nudges()


async def test_news_that_comes_while_a_turn_has_taken_the_rest_is_kept_for_the_next() -> None:
    office = Half()
    listening = asyncio.create_task(_news(cast("Office", office)))
    await asyncio.sleep(0)
    office.desk.heard = []
    office.backend.ready.set()
    await asyncio.wait_for(office.nudges.work.wait(), 5)
    assert office.desk.heard == [office.backend.seen]
    listening.cancel()
