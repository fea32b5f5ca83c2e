"""How often a server with nothing to do wakes up."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn

from openpai.app import disk_guard
from openpai.app.disk_guard import LOOK_S, RoomGuard
from openpai.app.entrances import _Server
from openpai.app.serve import Leaving, _settled
from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.ports.backend import TaskSeen
from openpai.system.disk_space import Space
from tests.contracts.seen import a_key
from tests.simulation.loop import VirtualLoop


def test_it_renews_the_date_of_its_answers_each_second_and_leaves_at_once() -> None:
    loop = VirtualLoop()
    left: list[float] = []

    async def serve() -> float:
        server = _Server(uvicorn.Config(lambda: None))
        leaving = Leaving(lambda: left.append(loop.time()))
        leaving.begin(server)
        ticks: list[int] = []
        tick = server.on_tick

        async def counting(counter: int) -> bool:
            ticks.append(counter)
            server.server_state.default_headers = []
            is_over = await tick(counter)
            assert [name for name, _ in server.server_state.default_headers] == [b"date"]
            return is_over

        server.on_tick = counting  # type: ignore[method-assign]
        serving = asyncio.create_task(server.main_loop())
        await asyncio.sleep(60.5)
        assert len(ticks) == 61
        leaving.leave()
        await serving
        return loop.time()

    try:
        ended = loop.run_until_complete(serve())
    finally:
        loop.close()
    assert left == [ended]


def test_a_signal_that_comes_before_there_is_a_server_stops_it() -> None:
    server = _Server(uvicorn.Config(lambda: None))
    leaving = Leaving(lambda: None)
    leaving.leave()
    leaving.begin(server)
    assert server.should_exit
    assert not server.force_exit
    leaving.leave()
    assert server.force_exit


async def test_the_disk_is_watched_many_times_a_second_only_while_there_are_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[TaskSeen] = []
    looks: list[str] = []
    is_watched = threading.Event()

    def counting(path: str) -> Space:
        if threading.current_thread().name == "watch the disk":
            looks.append(path)
            is_watched.set()
        return Space(1 << 40, 1 << 39)

    async def observe() -> list[TaskSeen]:
        return tasks

    monkeypatch.setattr(disk_guard, "space_of", counting)
    may_have_tasks = threading.Event()
    guard = RoomGuard(tmp_path, tmp_path, 1 << 20, observe, may_have_tasks)
    guarding = asyncio.create_task(guard.run())
    try:
        await asyncio.sleep(20 * LOOK_S)
        assert not looks
        # A launch wakes it before the backend reports the task.
        may_have_tasks.set()
        assert await asyncio.to_thread(is_watched.wait, 30)
        tasks[:] = [TaskSeen(a_key(), 1, None)]
        await guard.round(is_scarce=False)
        assert may_have_tasks.is_set()
        tasks[:] = [TaskSeen(a_key(), 1, 1, ExitReport(0))]
        await guard.round(is_scarce=False)
        assert not may_have_tasks.is_set()
    finally:
        guarding.cancel()
        guard.close()
    # The thread ends with the guard.
    await asyncio.gather(guarding, return_exceptions=True)
    assert may_have_tasks.is_set()


async def test_the_paths_of_thousands_of_logs_are_not_made_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    path = AttemptKey.path

    def noted(key: AttemptKey) -> str:
        threads.add(threading.current_thread().name)
        return path(key)

    async def observe() -> list[TaskSeen]:
        return [TaskSeen(a_key(), 1, started_at_ms=1)]

    monkeypatch.setattr(AttemptKey, "path", noted)
    guard = RoomGuard(tmp_path, tmp_path, 1 << 20, observe, threading.Event())
    try:
        await guard.round(is_scarce=False)
    finally:
        guard.close()
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


async def test_of_thousands_of_logs_only_those_that_have_grown_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    monkeypatch.setattr(disk_guard, "cap_logs", lambda directory, most: looked_at.append(directory))
    keys = [AttemptKey(job, 0, "worker", 0, 0) for job in ("quiet", "grows", "ended")]

    observed = 0

    async def observe() -> list[TaskSeen]:
        nonlocal observed
        observed += 1
        return [TaskSeen(key, 1, 1, ExitReport(0) if key.job == "ended" else None) for key in keys]

    grown = {keys[1], keys[2]}
    guard = RoomGuard(tmp_path, tmp_path, 1 << 20, observe, threading.Event(), grown=grown)
    try:
        await guard.round(is_scarce=False)
        # The end of a log may arrive after its task.
        assert {Path(directory).name.split(".")[0] for directory in looked_at} == {"grows", "ended"}
        looked_at.clear()
        await guard.round(is_scarce=False)
        assert not looked_at
        # Thousands of tasks are looked at seldom, only to learn whether there are any.
        assert observed == 1
        # While space is scarce less is kept of each.
        await guard.round(is_scarce=True)
        assert {Path(directory).name.split(".")[0] for directory in looked_at} == {"quiet", "grows"}
    finally:
        guard.close()


async def test_a_server_that_cannot_lead_yet_stops_when_it_is_asked_to() -> None:
    never = asyncio.Event()
    leaving, leading = Leaving(lambda: None), asyncio.create_task(_forever(never))
    built = cast("Any", SimpleNamespace(leadership=SimpleNamespace(is_settled=never)))
    waiting = asyncio.create_task(_settled(built, leading, leaving))
    await asyncio.sleep(0)
    leaving.leave()
    await asyncio.wait_for(waiting, 10)
    leading.cancel()


async def _forever(never: asyncio.Event) -> None:
    await never.wait()
