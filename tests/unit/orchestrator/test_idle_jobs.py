"""GPUs that a job does not use count in reports, each second once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from openpai.backends.simulated.backend import virtual_nodes
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.idle_jobs import IdleWatch, watch_idle
from openpai.orchestrator.lending import count_lending
from openpai.orchestrator.measuring import TaskMeasures
from openpai.ports.store import Change, Saved
from openpai.ports.task_usage import Counters, DeviceUse, TaskSample
from tests.unit.orchestrator.servers import Servers, live

PERIOD_MS = 15_000


def test_idle_gpus_count_from_the_first_second_on_and_only_while_they_are_idle() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", gpus=4)
        await servers.in_phase("train", "running")
        job = (await servers.row("train")).id
        leader, watch, measures = servers.leader, IdleWatch(), TaskMeasures()
        leader.measures = measures
        at_ms, cpu_s = 0, 0.0

        async def look(times: int, *, busy: bool) -> None:
            nonlocal at_ms, cpu_s
            for _ in range(times):
                at_ms, cpu_s = at_ms + PERIOD_MS, cpu_s + (15.0 if busy else 0.0)
                gpus = tuple(DeviceUse(index, busy_percent=90.0 if busy else 0.0) for index in range(4))
                key = AttemptKey(job, 0, "worker", 0, 0)
                measures.learn([TaskSample(key, at_ms, Counters(cpu_s), devices=gpus)])
                await watch_idle(leader, watch)

        async def idle_hours() -> float:
            await count_lending(leader)
            now_ms = servers.clock.now_ms()
            return sum(row.gpu_hours_idle for row in await servers.usage.use(now_ms - 1, now_ms))

        await look(10, busy=True)
        await look(3, busy=False)
        assert await idle_hours() == 0.0  # 45 s are not shown yet
        await look(5, busy=False)
        assert await idle_hours() == pytest.approx(4 * 8 * 15 / 3600)
        await look(4, busy=True)
        await look(4, busy=False)
        assert await idle_hours() == pytest.approx(4 * 12 * 15 / 3600)

    live(story)


def test_the_end_of_an_attempt_says_when_it_was_idle() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", gpus=1)
        await servers.in_phase("train", "running")
        job = (await servers.row("train")).id
        leader, measures, changes = servers.leader, TaskMeasures(), list[Change]()
        leader.measures, save = measures, leader.store.save

        async def saving(given: Sequence[Change], epoch: int | None, *, notify: bool = True) -> tuple[Saved, ...]:
            changes.extend(given)
            return await save(given, epoch, notify=notify)

        leader.store.save = saving  # type: ignore[method-assign, assignment]
        # The pass of the server itself looks at each sample once.
        for number in range(30):
            is_idle = number % 10 > 0 and number >= 10
            device = DeviceUse(0, busy_percent=0.0 if is_idle else 90.0)
            key, now_ms = AttemptKey(job, 0, "worker", 0, 0), servers.clock.now_ms()
            measures.learn([TaskSample(key, now_ms, Counters(float(number * (not is_idle) * 9)), devices=(device,))])
            await asyncio.sleep(PERIOD_MS / 1000)
        await servers.commands.restart("ann", "train", "ann", "")
        async with asyncio.timeout(300):
            while not any(change.ended for change in changes):  # noqa: ASYNC110  a change of the job
                await asyncio.sleep(1)
        [ended] = [change for change in changes if change.ended]
        assert [round((end - begin) / PERIOD_MS) for begin, end in ended.idle] == [9, 9]
        async with asyncio.timeout(300):
            while (job, 0) in leader.idle_times:  # noqa: ASYNC110  the next attempt runs
                await asyncio.sleep(1)

    live(story)


def test_the_logs_of_many_tasks_are_looked_at_together() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", instances=150, gpus=1)
        await servers.in_phase("train", "running")
        job = (await servers.row("train")).id
        leader, watch, measures = servers.leader, IdleWatch(), TaskMeasures()
        leader.measures, sizes, asked = measures, leader.logs.sizes, list[int]()

        async def counting(keys: Sequence[AttemptKey]) -> Sequence[int]:
            asked.append(len(keys))
            return await sizes(keys)

        leader.logs.sizes = counting  # type: ignore[method-assign]
        keys = [AttemptKey(job, 0, "worker", index, 0) for index in range(150)]
        measures.learn([TaskSample(key, 1, Counters(), devices=(DeviceUse(0),)) for key in keys])
        await watch_idle(leader, watch)
        assert set(watch.rests) == set(keys)
        assert asked == [100, 50]

    live(story, virtual_nodes(40, 4))
