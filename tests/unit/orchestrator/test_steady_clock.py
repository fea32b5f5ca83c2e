"""What the scheduler decides by how long jobs wait and run does not change when the wall clock is set."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest

from openpai.backends.simulated.backend import virtual_nodes
from tests.unit.orchestrator.servers import Servers, live

HOUR_MS = 3_600_000
STEP_S = 120


def kept_after_s(jump_ms: int, *, is_before: bool = False, is_changed: bool = False) -> float:
    """Return how long a gang waits until cells are kept for it when the clock is set by so much."""
    found: list[float] = []

    async def story(servers: Servers) -> None:
        # Until some have finished, one that runs is all that is known of how long others may wait.
        for number in range(4):
            await servers.submit(f"short-{number}", command="sleep 5")
            await servers.in_phase(f"short-{number}", "succeeded")
        await servers.submit("holder", gpus=3)
        await servers.in_phase("holder", "running")
        if is_before:
            servers.clock.set_ms += jump_ms
        await servers.submit("wide", gpus=2, instances=2)
        began_s = servers.loop.time()
        await asyncio.sleep(60)
        if not is_before:
            servers.clock.set_ms += jump_ms
        if is_changed:
            await servers.commands.set_rank("ann", "wide", 5, "root")
        while not servers.leader.scheduler.snapshot()["kept"]:
            assert servers.loop.time() - began_s < 12 * 3600
            await asyncio.sleep(STEP_S)
            servers.leader.nudges.work.set()
            await servers.loop.settle()
        found.append(servers.loop.time() - began_s)

    live(story, virtual_nodes(1, 4, cpus=16))
    return found[0]


@cache
def undisturbed_s(*, is_changed: bool) -> float:
    return kept_after_s(0, is_changed=is_changed)


@pytest.mark.parametrize(
    ("jump_ms", "when"),
    [
        pytest.param(-HOUR_MS, "while it waits", marks=pytest.mark.slow),
        *(
            pytest.param(jump_ms, when, marks=pytest.mark.full)
            for when in ("before it is submitted", "while it waits", "and its rank changes")
            for jump_ms in (-HOUR_MS, HOUR_MS)
            if (jump_ms, when) != (-HOUR_MS, "while it waits")
        ),
    ],
)
def test_cells_are_kept_after_the_same_wait_however_the_clock_is_set(jump_ms: int, when: str) -> None:
    is_changed = when.startswith("and")
    after_s = kept_after_s(jump_ms, is_before=when.startswith("before"), is_changed=is_changed)
    assert abs(after_s - undisturbed_s(is_changed=is_changed)) <= STEP_S


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
def test_estimates_are_times_of_the_clock_that_people_see(jump_ms: int) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("holder", gpus=4, extras={"timeLimitMinutes": 10})
        await servers.in_phase("holder", "running")
        servers.clock.set_ms += jump_ms
        await servers.submit("next", gpus=4)
        await asyncio.sleep(1)
        (wait,) = await servers.why("next")
        assert wait.estimate is not None
        assert wait.estimate.latest_ms is not None
        assert 590_000 <= wait.estimate.latest_ms - servers.clock.now_ms() <= 600_000

    live(story, virtual_nodes(1, 4, cpus=16))


def test_a_job_that_is_over_is_forgotten() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("short", command="sleep 5")
        await servers.in_phase("short", "succeeded")
        assert servers.leader.steady._submitted_ms == {}

    live(story)
