"""Changing the number of tasks of a job that waits, starts or runs: tasks join and leave, the others run on."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from openpai.lifecycle.rescaling import RoleScale
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from tests.unit.orchestrator.servers import Servers, live

APART = {"gangAllocation": False}
TOGETHER: dict[str, Any] = {}


async def scale(servers: Servers, **numbers: int) -> None:
    scales = {role: RoleScale(number) for role, number in numbers.items()}
    await servers.commands.rescale("ann", "a", scales, "ann")


def running(servers: Servers) -> list[str]:
    return sorted(f"{task.key.role}-{task.key.index}.{task.key.task_attempt}" for task in servers.cluster.running())


async def becomes(servers: Servers, *tasks: str) -> None:
    async def is_so() -> bool:
        return running(servers) == sorted(tasks)

    await servers.until(is_so, 60)


def used(servers: Servers) -> int:
    return servers.leader.scheduler.vc_views(servers.leader.steady.now_ms())[0].used.gpus


def held(servers: Servers) -> int:
    return sum(len(task.devices) for task in servers.cluster.running())


@pytest.mark.parametrize("extras", [APART, TOGETHER], ids=["apart", "together"])
def test_tasks_join_and_leave_while_the_others_run_on(extras: dict[str, Any]) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", gpus=2, instances=4, extras=extras)
        await servers.in_phase("a", "running")
        await scale(servers, worker=2)
        await becomes(servers, "worker-0.0", "worker-1.0")
        await scale(servers, worker=3)
        await becomes(servers, "worker-0.0", "worker-1.0", "worker-2.1")
        await scale(servers, worker=5)
        await becomes(servers, "worker-0.0", "worker-1.0", "worker-2.1", "worker-3.1", "worker-4.0")
        row = await servers.row("a")
        assert (row.attempt, row.tasks_total, row.gpus_total) == (0, 5, 10)
        # What was freed and what was taken is known to the scheduler, also after a restart.
        await servers.submit("b", gpus=2, instances=4)
        await asyncio.sleep(5)
        assert (await servers.row("b")).phase == "queued"
        await servers.restart()
        await asyncio.sleep(5)
        assert running(servers) == ["worker-0.0", "worker-1.0", "worker-2.1", "worker-3.1", "worker-4.0"]
        await scale(servers, worker=4)
        await servers.in_phase("b", "running")
        messages = [one.event.message for one in await servers.events("a") if one.event.reason == "Rescaled"]
        assert messages[0] == "ann changed the number of tasks: worker from 4 to 2"
        assert len(messages) == 4

    live(story)


def test_a_job_that_waits_asks_for_its_new_number_of_tasks() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("full", gpus=4, instances=3)
        await servers.in_phase("full", "running")
        await servers.submit("a", gpus=4, instances=2)
        await asyncio.sleep(5)
        await scale(servers, worker=1)
        await servers.in_phase("a", "running")
        await servers.commands.restart("ann", "a", "ann")
        await servers.in_phase("a", "running")
        assert (await servers.row("a")).tasks_total == 1
        with pytest.raises(Refused, match="16 GPUs"):
            await scale(servers, worker=5)

    live(story)


def test_a_gang_that_was_rescaled_starts_together_in_its_next_attempt() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", gpus=1, roles={"ps": {"instances": 3}, "worker": {"instances": 2}})
        await servers.in_phase("a", "running")
        await scale(servers, ps=1, worker=4)
        wanted = ["ps-0.0", "worker-0.0", "worker-1.0", "worker-2.0", "worker-3.0"]
        await becomes(servers, *wanted)
        await servers.restart()
        await servers.commands.restart("ann", "a", "ann")

        async def is_again() -> bool:
            return (await servers.row("a")).attempt == 1 and running(servers) == wanted

        await servers.until(is_again, 60)
        record = next(iter(servers.leader.active.records.values()))
        assert not any(slot.is_alone for slot in record.slots.values())
        assert [role.gang_instances for role in record.job.plan.roles] == [None, None]

    live(story)


def test_tasks_that_are_gone_do_not_decide_how_the_job_ends() -> None:
    async def story(servers: Servers) -> None:
        roles = {
            "worker": {"instances": 4, "commands": ["sleep 20 && exit 3"], "completion": {"minFailedInstances": 4}},
            "short": {"instances": 2, "commands": ["sleep 60"], "completion": {"minFailedInstances": -1}},
        }
        await servers.submit("a", gpus=1, roles=roles, extras=APART)
        await servers.in_phase("a", "running")
        await scale(servers, worker=2)
        await servers.in_phase("a", "succeeded")

    live(story)


def test_a_count_and_its_policy_change_in_one_step() -> None:
    async def story(servers: Servers) -> None:
        role = {"commands": ["sleep 10"], "completion": {"minFailedInstances": 1, "minSucceededInstances": 3}}
        roles = {"worker": {"instances": 3, **role}, "ps": {"instances": 1}}
        await servers.submit("a", gpus=1, roles=roles, extras=APART)
        await servers.in_phase("a", "running")
        await servers.commands.rescale("ann", "a", {"worker": RoleScale(2, 1, 2)}, "ann")
        await servers.in_phase("a", "succeeded")

    live(story)


def test_a_task_is_not_started_again_before_it_has_ended() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", gpus=1, instances=3, command="trap 'sleep 20' TERM; sleep 1000", extras=APART)
        await servers.in_phase("a", "running")
        await scale(servers, worker=1)
        with pytest.raises(Unavailable, match="2 tasks that job ann~a lost to a smaller number still run"):
            await scale(servers, worker=3)
        await becomes(servers, "worker-0.0")
        await servers.until(servers.is_quiet)
        await asyncio.sleep(1)
        await scale(servers, worker=3)
        await becomes(servers, "worker-0.0", "worker-1.1", "worker-2.1")

    live(story)


def test_what_a_job_cannot_have_is_refused() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", gpus=1, instances=2)
        await servers.in_phase("a", "running")
        with pytest.raises(InvalidParameters, match="no task role 'wrkr'"):
            await scale(servers, wrkr=1)
        with pytest.raises(InvalidParameters, match="would have 10001 tasks"):
            await scale(servers, worker=10_001)
        await scale(servers, worker=2)
        assert "Rescaled" not in {one.event.reason for one in await servers.events("a")}
        await servers.commands.stop("ann", "a", "ann")
        await servers.in_phase("a", "stopped")
        with pytest.raises(Refused, match="is over"):
            await scale(servers, worker=3)

    live(story)


@pytest.mark.full
@pytest.mark.parametrize("extras", [APART, TOGETHER], ids=["apart", "together"])
def test_any_history_leaves_the_right_tasks_and_nothing_held(extras: dict[str, Any]) -> None:
    async def history(servers: Servers, chance: Random) -> None:
        await servers.submit("a", gpus=1, roles={"ps": {"instances": 2}, "worker": {"instances": 3}}, extras=extras)
        for _ in range(12):
            await asyncio.sleep(chance.choice((0, 0.1, 1, 10)))
            what = chance.random()
            if what < 0.2:
                await servers.restart()
            elif what < 0.3:
                await servers.commands.restart("ann", "a", "ann") if await is_running(servers) else None
            else:
                try:
                    await scale(servers, ps=chance.randint(1, 6), worker=chance.randint(1, 9))
                except Unavailable:
                    continue
        sizes = next(iter(servers.leader.active.records.values())).spec.task_roles
        wanted = sorted(f"{role.name}-{index}" for role in sizes for index in range(role.instances))

        async def is_right() -> bool:
            return [one.partition(".")[0] for one in running(servers)] == wanted

        await servers.until(is_right, 120)
        await servers.submit("b", gpus=1, instances=16 - len(wanted))
        await servers.in_phase("b", "running", within_s=60)
        await servers.commands.stop("ann", "a", "ann")
        await servers.in_phase("a", "stopped")
        await servers.submit("c", gpus=1, instances=len(wanted))
        await servers.in_phase("c", "running", within_s=60)

    async def is_running(servers: Servers) -> bool:
        return (await servers.row("a")).phase == "running"

    for seed in range(6):
        live(lambda servers, seed=seed: history(servers, Random(seed)))  # type: ignore[misc]
