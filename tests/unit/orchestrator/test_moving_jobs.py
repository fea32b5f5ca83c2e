"""A job that may be interrupted moves to another node, so that a job that needs a whole node starts."""

from __future__ import annotations

import asyncio

import pytest

from openpai.backends.simulated.backend import virtual_nodes
from openpai.ports.cluster_settings import ORDERS
from openpai.protocol.wording import duration
from tests.unit.orchestrator.servers import Servers, live


@pytest.fixture(autouse=True)
def moves_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.scheduler.queue.moves.MOVED_AFTER_MS", 60_000)


MAY = {"hivedScheduler": {"interruptible": True, "checkpointMinutes": 5}}


async def _scattered(servers: Servers) -> None:
    """Leave one job of a single GPU on each of two nodes with eight."""
    is_on = {"orders": {}, "moveJobs": {"default": True}}
    await servers.settings.set_setting(ORDERS, is_on, by="root", at_ms=0, version=None)
    await servers.commands.limits_changed()
    for number in range(2):
        await servers.submit(f"fill{number}", gpus=7)
        await servers.in_phase(f"fill{number}", "running")
        await servers.submit(f"small{number}", extras=MAY)
        await servers.in_phase(f"small{number}", "running")
    for number in range(2):
        await servers.commands.stop("ann", f"fill{number}", "ann")
        await servers.in_phase(f"fill{number}", "stopped")
    await asyncio.sleep(120)


async def _spots(servers: Servers) -> dict[str, set[tuple[str, tuple[int, ...]]]]:
    names = ("small0", "small1", "big")
    return {name: servers.where((await servers.row(name)).id) for name in names}


@pytest.mark.slow
def test_a_job_of_one_gpu_moves_for_a_job_of_a_whole_node() -> None:
    async def story(servers: Servers) -> None:
        await _scattered(servers)
        await servers.submit("big", gpus=8)
        await servers.in_phase("big", "running")
        for number in range(2):
            await servers.in_phase(f"small{number}", "running")
        spots = await _spots(servers)
        (big,) = spots["big"]
        assert len(big[1]) == 8
        others = {node for name in ("small0", "small1") for node, _ in spots[name]}
        assert len(others) == 1
        assert big[0] not in others
        events = {f"small{number}": await servers.events(f"small{number}") for number in range(2)}
        left = [
            (name, each.event.message)
            for name, found in events.items()
            for each in found
            if each.event.reason == "AttemptPreempted"
        ]
        ((moved, message),) = left
        assert message == (
            "attempt 1: moved to make room for ann~big; other resources are reserved for it, "
            "and it starts there at once"
        )
        noted = [each.event.message for each in await servers.events(moved) if each.event.reason == "Moved"]
        lost_ms = servers.leader.scheduler.state.moves.work["default"].lost_gpu_ms
        assert 60_000 <= lost_ms <= 300_000
        lost = f"the last {duration(lost_ms / 1000)} of its work on 1 GPU are done again"
        assert noted == [f"it leaves its node for ann~big; {lost}"]
        others = [each.event.reason for name in events if name != moved for each in events[name]]
        assert "Moved" not in others
        (view,) = [each for each in servers.leader.scheduler.virtual_clusters() if each.name == "default"]
        assert (view.moves, view.moved_gpu_hours) == (1, lost_ms / 3_600_000)
        await asyncio.sleep(30)
        now_ms = servers.clock.now_ms()
        report = [row for row in await servers.usage.use(now_ms - 86_400_000, now_ms) if row.jobs_moved]
        assert [(row.user, row.virtual_cluster, row.jobs_moved, row.gpu_hours_moved) for row in report] == [
            ("ann", "default", 1, pytest.approx(lost_ms / 3_600_000))
        ]
        made = [each.event.message for each in await servers.events("big") if each.event.reason == "RoomMade"]
        assert made == [f"resources are reserved for it: ann~{moved} moved to make room for it"]
        await servers.restart()
        # It is not moved again before it has run for twice as long.
        gang = next(
            held.gang
            for held in servers.leader.scheduler.state.running.gangs.values()
            if held.gang.job == f"ann~{moved}"
        )
        assert (gang.attempt, gang.checkpoint_every_ms) == (1, 300_000)

    live(story, virtual_nodes(2, 8, cpus=16))


def test_no_job_moves_where_that_is_not_switched_on() -> None:
    async def story(servers: Servers) -> None:
        await _scattered(servers)
        off = {"orders": {}, "moveJobs": {"default": False}}
        await servers.settings.set_setting(ORDERS, off, by="root", at_ms=0, version=None)
        await servers.commands.limits_changed()
        await servers.submit("big", gpus=8)
        await asyncio.sleep(200)
        assert (await servers.row("big")).phase == "queued"

    live(story, virtual_nodes(2, 8, cpus=16))
