"""Writes to the API server are carried out some at a time, in order, and what waits for something else makes room."""

from __future__ import annotations

import asyncio
from functools import partial

from openpai.backends.kubernetes.writes import Writes


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
