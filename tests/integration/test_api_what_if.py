"""The cluster's own past with other promises: who may replay it, what is replayed, and one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.access.accounts import DEFAULT_GROUP, Group, User
from openpai.api.routes import what_if as route
from openpai.ports.platform import ClusterConfig
from openpai.simulator.cluster import generated
from openpai.store.schema import jobs
from tests.contracts.held import Held, run

from .api_world import _HASH, World, open_world

HOUR_MS = 3_600_000
CONFIG = ClusterConfig(None, generated(2, {"vision": 1, "speech": 1}).text, 1)
PATH = "/scheduler/what-if"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        group = Group("seers", managed=("vision",))
        await world.users.add_group(group)
        await world.users.add_user(User("max", _HASH, 0, groups=(group, Group(DEFAULT_GROUP))))

        async def config() -> ClusterConfig:
            return CONFIG

        async def views() -> tuple[Any, ...]:
            return SimpleNamespace(name="vision"), SimpleNamespace(name="speech")

        monkeypatch.setattr(world.commands, "cluster_config", config)
        monkeypatch.setattr(world.commands, "virtual_clusters", views)
        yield world


async def _past(world: World) -> None:
    now_ms = world.clock.at_ms
    held = [Held("ann", "vision", now_ms - (9 - hour) * HOUR_MS, now_ms - HOUR_MS, gpus=8) for hour in range(6)]
    held += [
        Held("bob", "gone", now_ms - HOUR_MS, now_ms, gpus=8),
        Held("bob", "speech", now_ms - HOUR_MS, None, gpus=0),
    ]
    await run(world.database, *held)
    for of_vc, gpus in (("vision", 8), ("speech", 0)):
        where = jobs.c.virtual_cluster == of_vc
        statement = sa.update(jobs).where(where).values(gpus_total=gpus)
        await world.database.write(lambda connection, made=statement: connection.execute(made))


async def test_the_past_is_replayed_with_both_promises(world: World) -> None:
    await _past(world)
    found = await world.get(PATH, "root", change="vision=+8")
    assert (found["jobs"], found["leftOut"]) == (6, {"without GPUs": 1, "their virtual cluster is gone": 1})
    now, then = found["now"], found["then"]
    assert [vc["name"] for vc in now["virtualClusters"]] == ["vision", "speech"]
    assert then["total"]["waitMeanSeconds"] < now["total"]["waitMeanSeconds"]
    assert found["notes"] == ["vision has 8 GPUs more; 1 node was added to the cluster"]


async def test_managers_change_and_see_their_own_virtual_clusters(world: World) -> None:
    await _past(world)
    found = await world.get(PATH, "max", change="vision=+8")
    assert [vc["name"] for vc in found["then"]["virtualClusters"]] == ["vision"]
    for user, change in (("max", "speech=+8"), ("max", "vision=+8,speech=-8"), ("ann", "vision=+8"), ("ann", "what")):
        answer = await world.ask("GET", PATH, user, params={"change": change})
        assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError"), (user, change)


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ({"change": "much"}, "InvalidParametersError", "'much' is no change"),
        ({"change": "nowhere=+8"}, "NoVirtualClusterError", "nowhere"),
        ({"change": "vision=+8", "days": 0}, "InvalidParametersError", "days"),
        ({"change": "vision=+8"}, "InvalidParametersError", "no job with GPUs has run in the last 30 days"),
    ],
)
async def test_what_cannot_be_replayed_is_refused(world: World, asked: dict[str, Any], code: str, message: str) -> None:
    answer = await world.ask("GET", PATH, "root", params=asked)
    assert answer.json()["code"] == code
    assert message in answer.json()["message"]


async def test_one_replay_runs_at_a_time_and_the_next_one_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _past(world)
    begun, end = asyncio.Event(), asyncio.Event()
    compare = route.compare_apart

    async def slow(*of: Any) -> Any:
        if not begun.is_set():
            begun.set()
            await end.wait()
        return await compare(*of)

    monkeypatch.setattr(route, "compare_apart", slow)
    first = asyncio.create_task(world.get(PATH, "root", change="vision=+8"))
    await begun.wait()
    second = await asyncio.wait_for(world.ask("GET", PATH, "max", params={"change": "vision=+8"}), 60)
    assert (second.status_code, second.json()["code"]) == (503, "UnavailableError")
    end.set()
    await first
    assert (await world.get(PATH, "max", change="vision=+8"))["jobs"] == 6
