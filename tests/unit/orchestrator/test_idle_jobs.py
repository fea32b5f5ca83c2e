"""GPUs that a job does not use count in reports, each second once."""

from __future__ import annotations

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.idle_jobs import IdleWatch, watch_idle
from openpai.orchestrator.lending import count_lending
from openpai.orchestrator.measuring import TaskMeasures
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
