"""What `why` says of a job whose tasks run on a node that does not answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from openpai.lifecycle.model import AttemptKey, ExitReport, TaskPhase
from openpai.orchestrator.waits import silent
from openpai.ports.backend import TaskSeen, TaskStep
from openpai.scheduler.model import Why
from tests.unit.orchestrator.servers import Servers, live

SAID = "its node n1 does not answer; if the node is off: kubectl taint node n1 ..."


def key(index: int) -> AttemptKey:
    return AttemptKey("j", 0, "worker", index, 0)


def test_why_names_each_silent_node_once_and_says_what_to_do() -> None:
    phases = [TaskPhase.RUNNING, TaskPhase.RUNNING, TaskPhase.RUNNING, TaskPhase.FAILED]
    tasks = {
        index: SimpleNamespace(is_alive=phase is TaskPhase.RUNNING, index=index) for index, phase in enumerate(phases)
    }
    found: Any = SimpleNamespace(job=SimpleNamespace(id="j", attempt=0, tasks=tasks, key=lambda task: key(task.index)))
    seen = [TaskSeen(key(index), 1, 5, None, SAID, TaskStep.NODE_SILENT) for index in (0, 1)]
    seen.append(TaskSeen(key(2), 1, 5))
    seen.append(TaskSeen(key(3), 1, 5, ExitReport(1), "another", TaskStep.NODE_SILENT))
    seen.append(TaskSeen(AttemptKey("other", 0, "worker", 0, 0), 1, 5, None, "of another job", TaskStep.NODE_SILENT))
    (wait,) = silent(found, seen)
    assert (wait.code, wait.message) == (Why.NODE_SILENT, SAID)
    assert "out of service" in wait.unblock


def test_why_asks_the_backend_only_about_tasks_on_nodes_that_may_not_answer() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", instances=4, gpus=2)
        await servers.in_phase("train", "running")
        leader, asked = servers.leader, list[Collection[AttemptKey]]()
        observe = leader.backend.observe

        async def observing(among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
            asked.append(among or ())
            return await observe(among)

        leader.backend.observe = observing  # type: ignore[method-assign]
        assert await servers.why("train") == ()
        assert asked == []
        slots = leader.active.records[(await servers.row("train")).id].slots
        node = next(iter(slots.values())).node
        there = {id_.index for id_, slot in slots.items() if slot.node == node}
        assert 0 < len(there) < 4
        leader.nodes = {**leader.nodes, node: replace(leader.nodes[node], is_healthy=False)}
        assert await servers.why("train") == ()
        assert [{key.index for key in keys} for keys in asked] == [there]
        # A node that was removed.
        leader.nodes = {name: found for name, found in leader.nodes.items() if name != node}
        await servers.why("train")
        assert [{key.index for key in keys} for keys in asked] == [there, there]

    live(story)
