"""Nodes, as administrators drain, mark and forget them while jobs run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from openpai.backends.simulated.backend import virtual_nodes
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.orchestrator import node_sync
from openpai.orchestrator.node_sync import capacity
from openpai.ports.backend import NodeSeen, TaskSeen
from openpai.ports.cluster_settings import MARKED
from openpai.ports.platform import NodeChange
from openpai.protocol.errors import Refused
from openpai.scheduler.model import Why
from tests.unit.orchestrator.servers import Servers, as_answer, live, promised


def test_nodes_that_are_away_and_that_no_promise_needs_are_forgotten_at_the_next_start() -> None:
    async def story(servers: Servers) -> None:
        del servers.cluster._nodes["node-04"]
        await servers.until(lambda: as_answer(promised(servers) == {"default": 12}))
        assert len(await servers.commands.nodes()) == 4
        await servers.restart()
        await servers.until(lambda: as_answer(servers.commands.leader is not None))
        assert [view.name for view in await servers.commands.nodes()] == ["node-01", "node-02", "node-03"]

    live(story)


def test_a_healthy_node_says_why_its_devices_are_bad() -> None:
    seen = NodeSeen("n1", "10.0.0.1", 8, 1024, 4, bad_devices=frozenset({1}), message="GPU 1: held by claim a/b")

    assert capacity(seen, None).message == "GPU 1: held by claim a/b; bad GPUs 1"
    assert capacity(seen, None).is_schedulable


def test_a_task_of_a_lost_node_starts_again_on_another_one_at_once() -> None:
    async def story(servers: Servers) -> None:
        first = await servers.submit("first", gpus=4)
        await servers.in_phase("first", "running")
        ((name, _),) = servers.where(first.job)
        leader = servers.leader
        record = leader.active.records[first.job]
        (task,) = record.job.tasks.values()
        nodes = servers.cluster._nodes
        nodes[name] = replace(nodes[name], is_healthy=False)
        lost = ExitReport(137, ExitReason.NODE_LOST, "its node does not answer")
        leader.active.heard.append(TaskSeen(record.job.key(task), task.grant or 0, task.started_at_ms, lost))
        leader.nudges.work.set()
        await servers.until(lambda: as_answer({node for node, _ in servers.where(first.job)} not in (set(), {name})))
        assert leader.active.records[first.job].job.attempt == 1

    live(story)


def test_a_drained_node_takes_no_new_tasks_and_keeps_those_it_has() -> None:
    async def story(servers: Servers) -> None:
        first = await servers.submit("first", gpus=4)
        await servers.in_phase("first", "running")
        ((node, _),) = servers.where(first.job)
        view = await servers.commands.change_node(node, NodeChange(is_drained=True, reason="new fans"), "root")
        assert (view.is_drained, view.drained_because, view.virtual_clusters) == (True, "new fans", ("default",))
        assert (await servers.row("first")).phase == "running"
        await servers.submit("others", gpus=4, instances=4)
        await asyncio.sleep(1)
        (wait,) = await servers.why("others")
        assert wait.code in (Why.NOT_ENOUGH_FREE, Why.UNHEALTHY_NODES)
        await servers.restart()
        await servers.until(lambda: as_answer(servers.commands.leader is not None))
        await servers.commands.stop("ann", "first", "ann")
        await servers.in_phase("first", "stopped")
        assert (await servers.row("others")).phase == "queued"
        await servers.commands.change_node(node, NodeChange(is_drained=False), "root")
        await servers.in_phase("others", "running")

    live(story)


def test_no_job_gets_a_device_that_is_marked_as_bad() -> None:
    async def story(servers: Servers) -> None:
        bad = NodeChange(bad_devices=frozenset({0, 2}), reason="fell off\nthe bus")
        view = await servers.commands.change_node("node-01", bad, "root")
        assert (view.bad_devices, view.bad_because) == ((0, 2), "fell off the bus")
        await servers.submit("wide", gpus=4)
        submitted = await servers.submit("narrow", gpus=2)
        await servers.in_phase("narrow", "running")
        await servers.in_phase("wide", "running")
        assert servers.where(submitted.job) == {("node-01", (1, 3))}
        await servers.submit("later", gpus=4, instances=2)
        await asyncio.sleep(1)
        (wait,) = await servers.why("later")
        assert "node-01, bad GPUs 0, 2: fell off the bus" in wait.message
        with pytest.raises(Refused, match="has no GPU 4, 9"):
            await servers.commands.change_node("node-01", NodeChange(bad_devices=frozenset({1, 9, 4})), "root")
        view = await servers.commands.change_node("node-01", NodeChange(bad_devices=frozenset()), "root")
        assert (view.bad_devices, view.bad_because) == ((), "")

    live(story, virtual_nodes(2, 4))


def test_a_missing_node_cannot_be_changed_nor_a_present_one_forgotten() -> None:
    async def story(servers: Servers) -> None:
        with pytest.raises(Refused, match="no node 'n'"):
            await servers.commands.change_node("n", NodeChange(is_drained=True), "root")
        with pytest.raises(Refused, match="no node 'n'"):
            await servers.commands.forget_node("n", "root")
        with pytest.raises(Refused, match="still reports"):
            await servers.commands.forget_node("node-01", "root")

    live(story)


def test_a_mark_follows_its_device_to_another_index() -> None:
    """As on nodes whose kubelet chooses devices: which one a task has is known later than its index."""

    async def story(servers: Servers) -> None:
        nodes = servers.cluster._nodes

        async def devices(*identities: str) -> None:
            nodes["node-01"] = replace(nodes["node-01"], devices=identities)
            await node_sync.sync_nodes(servers.leader)

        def marks() -> frozenset[int]:
            return servers.leader.sharing.notes["node-01"].bad_devices

        await devices("a", "", "c", "d")
        bad = NodeChange(bad_devices=frozenset({1, 2}), reason="ECC")
        await servers.commands.change_node("node-01", bad, "root")
        await devices("a", "c", "", "d")
        assert marks() == {1, 2}
        await devices("c", "b", "", "a")
        assert marks() == {0, 2}
        # A restart, and a node that is away for a while.
        await servers.restart()
        await servers.until(lambda: as_answer(servers.commands.leader is not None))
        gone = nodes.pop("node-01")
        await node_sync.sync_nodes(servers.leader)
        nodes["node-01"] = gone
        await devices("b", "e", "", "c")
        assert marks() == {2, 3}
        # A device that was replaced keeps the mark of its index.
        await devices("b", "e", "", "f")
        assert marks() == {2, 3}
        (view, *_) = await servers.commands.nodes()
        assert (view.bad_devices, view.bad_because) == ((2, 3), "ECC")
        await servers.commands.change_node("node-01", NodeChange(bad_devices=frozenset()), "root")
        await devices("c", "b", "", "a")
        assert marks() == frozenset()
        setting = await servers.settings.setting(MARKED)
        assert setting is not None
        assert setting.body == {"nodes": {}}

    live(story)
