"""Reports that come one by one from a gang make one turn, and nothing that can be decided waits for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from openpai.lifecycle.model import ExitReport
from openpai.orchestrator.observing import HEARD_PER_PASS, count_freed, waits_for_others
from openpai.ports.backend import Action, LaunchTask, TaskSeen
from openpai.ports.store import Change, Saved
from tests.unit.orchestrator.servers import Servers, live

LOOSE = {"gangAllocation": False}


def test_the_members_of_a_gang_that_end_one_by_one_make_one_turn_and_the_next_gang_starts_with_the_last_end() -> None:
    async def story(servers: Servers) -> None:
        ends_s = [37.0, 37.005, 37.01, 37.015]
        of_all = {"completion": {"minSucceededInstances": 4}}
        roles = {f"r{number}": {"commands": [f"sleep {end_s}"], **of_all} for number, end_s in enumerate(ends_s)}
        await servers.submit("first", gpus=4, roles=roles)
        await servers.submit("next", gpus=4, instances=4)
        await servers.in_phase("first", "running")
        await asyncio.sleep(1)
        first, leader = (await servers.row("first")).id, servers.leader
        saved_s, launched_s = list[float](), list[float]()
        save, apply = leader.store.save, leader.backend.apply

        async def saving(changes: Sequence[Change], *given: Any, **named: Any) -> tuple[Saved, ...]:
            saved_s.extend([servers.loop.time() for change in changes if change.after.job.id == first])
            return await save(changes, *given, **named)

        async def applying(actions: Sequence[Action]) -> None:
            launched_s.extend([servers.loop.time() for action in actions if isinstance(action, LaunchTask)])
            await apply(actions)

        leader.store.save = saving  # type: ignore[method-assign]
        leader.backend.apply = applying  # type: ignore[method-assign]
        await servers.in_phase("next", "running")
        (ended_s,) = saved_s
        assert launched_s == [ended_s] * 4
        record = await leader.store.load(first)
        assert record is not None
        ends_ms = [task.ended_at_ms or 0 for task in record.job.tasks.values()]
        assert max(ends_ms) - min(ends_ms) == 15
        assert abs(max(ends_ms) / 1000 - (servers.clock.now_ms() / 1000 - servers.loop.time() + ended_s)) < 0.002

    live(story)


def test_only_what_frees_nothing_yet_waits_for_others() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("gang", instances=4)
        await servers.submit("loose", instances=2, extras=LOOSE)
        await servers.in_phase("gang", "running")
        await servers.in_phase("loose", "running")
        leader = servers.leader
        of = {(await servers.row(name)).id: name for name in ("gang", "loose")}
        seen = await leader.backend.observe()
        gang = [task for task in seen if of[task.key.job] == "gang"]
        loose = [task for task in seen if of[task.key.job] == "loose"]
        over = [replace(task, exit=ExitReport(0)) for task in gang]

        def waits(*heard: TaskSeen) -> bool:
            leader.active.heard = list(heard)
            return waits_for_others(leader, heard[-1:])

        assert not waits(gang[0])
        assert waits(*over[:3])
        assert waits(*over[:3], over[2])
        assert not waits(*over)
        assert not waits(replace(gang[0], exit=ExitReport(1)))
        assert not waits(replace(loose[0], exit=ExitReport(0)))
        assert not waits(*[gang[0]] * HEARD_PER_PASS)
        leader.active.heard = []

    live(story)


def test_members_of_two_gangs_that_free_enough_together_do_not_wait_for_the_others() -> None:
    async def story(servers: Servers) -> None:
        for name in ("one", "two"):
            await servers.submit(name, gpus=4, instances=2)
        await servers.in_phase("two", "running")
        leader = servers.leader
        first = {task.key.job: task for task in reversed(await leader.backend.observe())}
        one, two = (replace(task, exit=ExitReport(0)) for task in first.values())

        def waits(*heard: TaskSeen) -> bool:
            leader.active.heard = list(heard)
            return waits_for_others(leader, heard[-1:])

        assert waits(one, two)
        await servers.submit("next", gpus=4, instances=2)
        assert waits(one, one)
        assert not waits(one, two)
        # One of them is recorded and the other one ends later.
        leader.active.freed = 4
        assert not waits(two)
        leader.active.heard = []

    live(story)


def test_what_was_enough_for_a_gang_that_waits_is_not_counted_again() -> None:
    async def story(servers: Servers) -> None:
        for name in ("one", "two"):
            await servers.submit(name, gpus=4, instances=2)
        await servers.in_phase("two", "running")
        leader = servers.leader
        one, two = (replace(task, exit=ExitReport(0)) for task in (await leader.backend.observe())[:2])
        count_freed(leader, [one])
        assert leader.active.freed == 4
        await servers.submit("next", gpus=4, instances=2)
        count_freed(leader, [two])
        assert leader.active.freed == 0

    live(story)
