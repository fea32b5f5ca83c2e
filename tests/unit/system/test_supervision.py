"""Loops of the server outlive whatever error they meet, and the error is counted."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from openpai.system.supervision import Background, background, failures, supervise


class Panic(BaseException):
    """What extension modules written in Rust raise."""


def nested() -> None:
    nested()


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, RecursionError, Panic])
async def test_a_loop_goes_on_after_an_error(kind: type[BaseException]) -> None:
    rounds: list[int] = []
    done = asyncio.Event()
    name = f"test {kind.__name__}"

    async def loop() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            done.set()
        elif kind is RecursionError:
            nested()
        else:
            raise kind("no")

    with capture_logs() as logs:
        task = supervise(name, loop, again_s=0)
        await task
    assert done.is_set()
    assert failures()[name] == 2
    assert {entry["loop"] for entry in logs} == {name}


async def test_a_loop_ends_when_it_is_stopped() -> None:
    began = asyncio.Event()

    async def loop() -> None:
        began.set()
        await asyncio.Event().wait()

    task = supervise("test cancelled", loop)
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "test cancelled" not in failures()


async def test_an_error_in_a_task_that_is_not_awaited_is_counted() -> None:
    async def work() -> None:
        raise RuntimeError("no")

    with capture_logs() as logs:
        await background("test work", work())
    assert failures()["test work"] == 1
    assert logs[0]["log_level"] == "error"


async def test_work_in_the_background_is_waited_for_and_then_cancelled() -> None:
    kept, done, ended = Background(), asyncio.Event(), asyncio.Event()

    async def short() -> None:
        done.set()

    async def long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    kept.start("test short", short())
    kept.start("test long", long())
    await kept.drain(0.01)
    assert (len(kept), done.is_set(), ended.is_set()) == (1, True, False)
    await kept.close()
    assert (len(kept), ended.is_set()) == (0, True)
    await kept.drain(60)
