"""The queue of objects: one at a time each, none lost, failures ever later."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from openpai.kube.work_queue import WorkQueue
from openpai.protocol.errors import Unavailable


async def test_a_change_during_a_step_leads_to_another_step_and_never_to_two_at_once() -> None:
    steps: list[str] = []
    running = Counter[str]()
    entered, may_go_on, twice = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def step(key: str) -> None:
        running[key] += 1
        assert running[key] == 1
        steps.append(key)
        entered.set()
        await may_go_on.wait()
        running[key] -= 1
        if len(steps) == 2:
            twice.set()

    queue = WorkQueue[str]("test", step)
    task = asyncio.create_task(queue.run())
    queue.add("a")
    queue.add("a")
    await entered.wait()
    queue.add("a")
    queue.add("a")
    may_go_on.set()
    async with asyncio.timeout(10):
        await twice.wait()
    assert steps == ["a", "a"]
    task.cancel()


@pytest.mark.slow
async def test_failures_of_both_kinds_are_repeated_and_others_go_on() -> None:
    tries = Counter[str]()
    done = asyncio.Event()

    async def step(key: str) -> float | None:
        tries[key] += 1
        if key == "away" and tries[key] < 3:
            raise Unavailable("the server is away")
        if key == "bug" and tries[key] < 2:
            raise ZeroDivisionError
        if tries == {"away": 3, "bug": 2, "polled": 3}:
            done.set()
        return 0.01 if key == "polled" and tries[key] < 3 else None

    queue = WorkQueue[str]("test", step)
    task = asyncio.create_task(queue.run())
    for key in ("away", "bug", "polled"):
        queue.add(key)
    async with asyncio.timeout(30):
        await done.wait()
    task.cancel()
