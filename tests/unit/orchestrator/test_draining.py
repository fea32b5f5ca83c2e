"""Nodes that are drained until a time, and what people see of who holds what."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from openpai.lifecycle.model import Outcome, Verdict
from openpai.ports.platform import NodeChange
from openpai.protocol.errors import Refused
from tests.unit.orchestrator.servers import Servers, live


@pytest.mark.slow
def test_jobs_leave_a_drained_node_at_its_deadline_and_run_elsewhere() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("stays", gpus=4)
        await servers.in_phase("stays", "running")
        await servers.submit("quick", gpus=4, command="sleep 60")
        await servers.in_phase("quick", "running")
        node, other = [next(iter(servers.where((await servers.row(name)).id)))[0] for name in ("stays", "quick")]
        for each in (node, other):
            view = await servers.commands.change_node(
                each, NodeChange(is_drained=True, reason="fans", deadline_s=600), "root"
            )
            assert view.deadline_ms == servers.clock.now_ms() + 600_000
        # Another server keeps what the first one promised.
        await servers.restart()
        await asyncio.sleep(500)
        assert (await servers.row("stays")).attempt == 0
        assert (await servers.row("quick")).phase == "succeeded"
        await asyncio.sleep(200)
        row = await servers.row("stays")
        assert (row.attempt, row.phase) == (1, "running")
        assert next(iter(servers.where(row.id)))[0] not in (node, other)
        (message,) = [
            one.event.message for one in await servers.events("stays") if one.event.reason == "AttemptPreempted"
        ]
        assert f"node {node} is drained and its deadline has passed: fans" in message

    live(story)


def test_a_deadline_goes_with_the_drain() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", gpus=4, instances=4)
        await servers.in_phase("a", "running")
        nodes = [view.name for view in await servers.commands.nodes()]
        for promise in (
            NodeChange(is_drained=True, deadline_s=60),
            NodeChange(is_drained=True),
            NodeChange(is_drained=False),
        ):
            view = await servers.commands.change_node(nodes[0], promise, "root")
            assert (view.deadline_ms is None) == (promise.deadline_s is None)
        await servers.commands.change_node(nodes[1], NodeChange(is_drained=True, deadline_s=60), "root")
        await servers.commands.change_node(nodes[1], NodeChange(is_drained=False), "root")
        await asyncio.sleep(300)
        assert (await servers.row("a")).attempt == 0

    live(story)


def test_who_holds_the_room_is_known_largest_first() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("large", gpus=4, instances=3, extras={"timeLimitMinutes": 60})
        await servers.submit("small", gpus=2)
        for name in ("large", "small"):
            await servers.in_phase(name, "running")
        await servers.submit("waits", gpus=4)
        await asyncio.sleep(5)
        held = await servers.in_the_way("waits")
        assert [(one.name, one.gpus, one.tasks) for one in held] == [("large", 12, 3), ("small", 2, 1)]
        assert (held[0].ends_ms or 0) - (held[0].since_ms or 0) == 3_600_000
        assert held[1].ends_ms is None
        assert await servers.in_the_way("small") == ()
        on = {
            name: await servers.commands.node_holdings(name)
            for name in [view.name for view in await servers.commands.nodes()]
        }
        assert sorted(one.gpus for held in on.values() for one in held) == [2, 4, 4, 4]
        with pytest.raises(Refused, match="no node 'nowhere'"):
            await servers.commands.node_holdings("nowhere")

    live(story)


def test_a_guaranteed_job_does_not_wait_for_those_that_must_leave_for_it() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("holder", gpus=4, instances=3)
        await servers.in_phase("holder", "running")
        await servers.submit("guest", gpus=4, extras={"hivedScheduler": {"jobPriorityClass": "oppo"}})
        await servers.in_phase("guest", "running")
        borrowed = [(await servers.borrowed(name)).gpus for name in ("holder", "guest")]
        assert borrowed == [0, 4]
        # Too large beside the holder, however many borrowers leave.
        await servers.submit("waits", gpus=4, instances=2)
        await asyncio.sleep(5)
        assert [one.name for one in await servers.in_the_way("waits")] == ["holder"]
        # What is leaving holds its room until it is gone.
        records = servers.leader.active.records
        id_, guest = next((id_, found) for id_, found in records.items() if found.name == "guest")
        leaving = Outcome(Verdict.PREEMPTED, -101, message="others have more right")
        records[id_] = replace(guest, job=replace(guest.job, outcome=leaving))
        held = await servers.in_the_way("waits")
        assert [(one.name, one.is_ending) for one in held] == [("holder", False), ("guest", True)]

    live(story)


def test_what_an_opportunistic_job_waits_for_is_held_by_the_jobs_of_all_virtual_clusters() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("theirs", gpus=4, instances=3)
        await servers.submit("ours", gpus=4)
        for name in ("theirs", "ours"):
            await servers.in_phase(name, "running")
        oppo = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
        await servers.submit("guest", gpus=4, extras=oppo)
        await asyncio.sleep(5)
        assert servers.commands.leader is not None
        records = servers.commands.leader.active.records
        moved = next(id_ for id_, found in records.items() if found.name == "theirs")
        records[moved] = replace(records[moved], virtual_cluster="elsewhere")
        assert [one.name for one in await servers.in_the_way("guest")] == ["theirs", "ours"]

    live(story)
