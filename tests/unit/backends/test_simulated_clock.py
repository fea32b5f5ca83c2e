"""Tasks of the simulated backend run as long as they ask for, however the wall clock is set meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from openpai.app.clock import MonotonicClock
from openpai.backends.simulated.backend import SimulatedBackend, virtual_nodes
from openpai.backends.simulated.cluster import SimulatedCluster
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import LaunchTask
from tests.unit.backends.test_simulated_cluster import HandClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
async def test_a_task_runs_as_long_as_it_asks_for(jump_ms: int) -> None:
    wall, steady = HandClock(), HandClock()
    wall.ms = steady.ms = 10 * HOUR_MS
    key = AttemptKey("job", 0, "w", 0, 0)
    backend = SimulatedBackend(SimulatedCluster(virtual_nodes(1, 4)), wall, steady=steady)
    await backend.open()
    await backend.apply([LaunchTask(key, 1, "node-01", (0,), 1, 64, "image", "sleep 20")])
    for clock in (wall, steady):
        clock.ms += 1_000
    await backend.apply([])
    wall.ms += jump_ms
    for clock in (wall, steady):
        clock.ms += 18_000
    await backend.apply([])
    assert [seen.exit for seen in await backend.observe()] == [None]
    for clock in (wall, steady):
        clock.ms += 2_000
    await backend.apply([])
    (seen,) = await backend.observe()
    assert seen.exit is not None
    assert seen.exit.ended_at_ms == wall.ms - 1_000
    await backend.close()


async def test_the_clock_that_is_never_set_goes_on() -> None:
    clock = MonotonicClock()
    before_ms = clock.now_ms()
    while clock.now_ms() == before_ms:  # noqa: ASYNC110  # no event says that a millisecond has passed
        await asyncio.sleep(0.001)
    assert clock.now_ms() > before_ms
