"""Writes to the API server are carried out some at a time, in order, and what waits for something else makes room."""

from __future__ import annotations

import asyncio
from functools import partial

from openpai.backends.kubernetes.writes import Writes
from openpai.system.pauses import Precedence


async def test_work_that_waits_aside_lets_other_work_begin_and_no_more_than_that() -> None:
    writes = Writes("test", 2)
    room, began, now, most = asyncio.Event(), [], 0, 0

    async def work(name: str) -> None:
        nonlocal now, most
        began.append(name)
        if name.startswith("waits"):
            with writes.aside():
                await room.wait()
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    for name in ("waits 1", "waits 2", "waits 3", "a", "b", "c", "d"):
        writes.add(partial(work, name))
    while len(began) < 7:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert (began, most) == (["waits 1", "waits 2", "waits 3", "a", "b", "c", "d"], 2)
    room.set()
    await writes.drain(10)
    for name in ("e", "f", "g"):
        writes.add(partial(work, name))
    most = 0
    await writes.drain(10)
    assert (began[-3:], most) == (["e", "f", "g"], 2)
    await writes.close()


async def test_a_queue_is_busy_until_its_last_work_is_over() -> None:
    writes, ends = Writes("test", 1), asyncio.Event()

    async def work() -> None:
        await ends.wait()

    assert not writes.is_busy
    writes.add(work)
    writes.add(work)
    assert writes.is_busy
    await asyncio.sleep(0)
    ends.set()
    await writes.drain(10)
    await asyncio.sleep(0)
    assert not writes.is_busy
    await writes.close()


async def test_work_that_can_wait_gives_way_until_a_decision_is_made_or_a_moment_is_over() -> None:
    for moment_s, is_released in ((1e9, True), (0.0, False)):
        precedence = Precedence(moment_s)
        began = asyncio.Event()
        writes = Writes("test", 2, precedence)
        precedence.claim()

        async def work(began: asyncio.Event = began) -> None:
            began.set()

        writes.add(work)
        for _ in range(3):
            await asyncio.sleep(0)
            assert not is_released or not began.is_set()
        if is_released:
            precedence.release()
        await asyncio.wait_for(began.wait(), 60)
        await writes.close()


async def test_work_that_gave_way_and_is_dropped_meanwhile_does_not_begin() -> None:
    precedence = Precedence(1e9)
    writes = Writes("test", 1, precedence)
    precedence.claim()
    began: list[int] = []

    async def work() -> None:
        began.append(1)

    writes.add(work)
    await asyncio.sleep(0)
    await writes.close()
    precedence.release()
    await writes.drain(10)
    assert began == []
