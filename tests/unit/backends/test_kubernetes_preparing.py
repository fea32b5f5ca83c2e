"""What pods share is there before their turn: no pod of one job waits for another job's Secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from openpai.backends.kubernetes.preparing import AHEAD, Preparer
from openpai.backends.kubernetes.volumes import PodVolumes
from openpai.kube import client as client_module
from openpai.kube.client import KubeClient
from openpai.kube.objects import NAMESPACES, SECRETS, SERVICES
from openpai.ports.backend import LaunchTask
from tests.contracts.seen import a_key
from tests.kube.standin_connection import Network, StandInAccess, connection_of
from tests.unit.backends.test_kubernetes_pods import PEERS, SEALS, a_launch, bundles

# No shell exports these names, so they have a Secret of their own.
LARGE = {f"PAI_PORT_LIST_work-er_{number}": "1" * 100 for number in range(100)}


class _Slow(Network):
    def delay_s(self, method: str) -> float:
        return 0.001


class _Counting(KubeClient):
    """A client that knows how many creations were under way at the same time, and how many there were."""

    most = now = count = 0
    fails = False

    async def create(self, *given: Any, **more: Any) -> Any:
        if self.fails:
            raise RuntimeError("a bug")
        self.count += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().create(*given, **more)
        finally:
            self.now -= 1


@asynccontextmanager
async def preparing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Preparer, _Counting]]:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    async with _Counting(StandInAccess(network=_Slow())) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "jobs"}})
        client.most = client.count = 0
        of = bundles().of
        made = Preparer(client, "jobs", SEALS.scope, lambda launch: (of(launch), PodVolumes()))
        try:
            yield made, client
        finally:
            await made.close()


def launch_of(job: str) -> LaunchTask:
    return a_launch(key=replace(a_key(), job=job), hosts=PEERS, shared_env=LARGE)


async def jobs_prepared(client: KubeClient, count: int) -> set[str]:
    """Wait until so many jobs have all three objects, and return the names of their services."""
    while len(await client.list(SECRETS, "jobs")) < 2 * count or len(await client.list(SERVICES, "jobs")) < count:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return {found.name for found in await client.list(SERVICES, "jobs")}


async def test_all_that_a_pod_refers_to_is_created_at_once_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with preparing(monkeypatch) as (preparer, client):
        launch = launch_of("one")
        bundle = bundles().of(launch)
        tasks = (preparer.prepare(launch, bundle, PodVolumes()) for _ in range(5))
        assert await asyncio.gather(*tasks) == [None] * 5
        assert (client.most, client.count) == (3, 3)
        await preparer.prepare(launch, bundle, PodVolumes())
        assert client.count == 3


async def test_the_next_jobs_are_prepared_while_pods_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with preparing(monkeypatch) as (preparer, client):
        launches = [launch_of(f"job-{number}") for number in range(AHEAD + 2)]
        for launch in launches:
            preparer.expect(launch)
            preparer.expect(launch)
        assert await jobs_prepared(client, AHEAD) == {f"pai-job-{number}" for number in range(AHEAD)}
        assert client.count == 3 * AHEAD

        preparer.begins(launches[0])
        preparer.begins(launches[0])
        assert f"pai-job-{AHEAD}" in await jobs_prepared(client, AHEAD + 1)
        assert client.count == 3 * (AHEAD + 1)


async def test_what_failed_for_an_unforeseen_reason_is_not_taken_for_created(monkeypatch: pytest.MonkeyPatch) -> None:
    async with preparing(monkeypatch) as (preparer, client):
        launch = launch_of("one")
        bundle = bundles().of(launch)
        client.fails = True
        tasks = (preparer.prepare(launch, bundle, PodVolumes()) for _ in range(2))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(error) for error in found] == ["a bug", "a bug"]
        client.fails = False
        assert await preparer.prepare(launch, bundle, PodVolumes()) is None
        assert client.count == 3
