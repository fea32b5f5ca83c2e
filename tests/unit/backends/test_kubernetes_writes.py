"""Writes to the API server are carried out some at a time, in order, and what waits for something else makes room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from openpai.backends.kubernetes.writes import Pace, Writes
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


def test_a_server_that_has_no_core_free_gets_little_at_a_time_and_one_far_away_gets_much() -> None:
    def after(pace: Pace, took_s: Callable[[int], float], count: int) -> int:
        for _ in range(count):
            pace.note(took_s(pace.at_once))
        return pace.at_once

    near, far = Pace(2, 16), Pace(2, 16)
    # Four take as long as one, and then each waits for those before it.
    assert after(near, lambda at_once: 0.005 * max(1.0, at_once / 4), 500) in (7, 8, 9)
    assert after(far, lambda _: 0.1, 500) == 16
    # Others need the server, too, and then no longer.
    assert after(near, lambda at_once: 0.025 * max(1.0, at_once / 4), 100) == 2
    assert after(near, lambda at_once: 0.005 * max(1.0, at_once / 4), 500) in (7, 8, 9)
    # What takes long for good is how long it takes.
    assert after(far, lambda _: 0.4, 4000) == 16


async def test_a_queue_follows_its_pace_while_work_waits() -> None:
    pace, now, most = Pace(2, 4), 0, 0
    writes = Writes("test", pace)

    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        pace.note(1.0)

    for _ in range(40):
        writes.add(work)
    await asyncio.sleep(0)
    assert most == 2
    await writes.drain(10)
    assert (most, now) == (4, 0)
    await writes.close()
