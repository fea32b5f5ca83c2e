"""At most one of several processes leads, whatever the network does, and soon one does again. In virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from openpai.kube import client as client_module
from openpai.kube.client import KubeClient
from openpai.kube.election import LEASE_S, Election
from openpai.kube.objects import LEASES, NAMESPACES
from tests.kube.standin import StandInApi
from tests.kube.standin_connection import Network, StandInAccess, connection_of
from tests.simulation.loop import VirtualLoop


class Bad(Network):
    """A network that a test breaks."""

    def __init__(self, chance: random.Random) -> None:
        self.up = True
        self.worst_s = 0.0
        self.losses = 0.0
        self._chance = chance

    def is_up(self) -> bool:
        return self.up

    def delay_s(self, method: str) -> float:
        return self._chance.random() * self.worst_s

    def loses_answer(self, method: str) -> bool:
        return self._chance.random() < self.losses


class Process:
    """One process that leads whenever it can."""

    def __init__(self, api: StandInApi, name: str, chance: random.Random) -> None:
        self.network = Bad(chance)
        self.client = KubeClient(StandInAccess(api=api, network=self.network))
        self.election = Election(self.client, "ns", "extender", name)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while True:
                await self.election.acquire()
                await self.election.keep()
        finally:
            await self.election.release()

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def processes(count: int, seed: int = 0) -> AsyncIterator[list[Process]]:
    chance = random.Random(seed)
    api = StandInApi()
    made = [Process(api, f"p{number}", chance) for number in range(count)]
    for process in made:
        await process.client.__aenter__()
    await made[0].client.create(NAMESPACES, {"metadata": {"name": "ns"}})
    for process in made:
        process.start()
    try:
        yield made
    finally:
        for process in made:
            await process.stop()
            await process.client.__aexit__(None, None, None)


async def leader(made: list[Process], within_s: float) -> Process:
    """Return the one that leads, once one does."""
    began_s = asyncio.get_running_loop().time()
    while not (leads := [process for process in made if process.election.is_held]):
        assert asyncio.get_running_loop().time() - began_s < within_s
        await asyncio.sleep(0.1)
    (found,) = leads
    return found


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)


def test_a_leader_that_stops_is_followed_at_once_and_one_that_is_cut_off_after_its_lease() -> None:
    async def story() -> None:
        async with processes(3) as made:
            first = await leader(made, 5)
            await asyncio.sleep(60)
            assert await leader(made, 0.1) is first
            await first.stop()
            second = await leader(made, 5)
            assert second is not first
            second.network.up = False
            await asyncio.sleep(12)
            assert not second.election.is_held
            third = await leader(made, LEASE_S)
            second.network.up = True
            await asyncio.sleep(60)
            assert (await leader(made, 0.1), second.election.holder) == (third, third.election.holder)
            lease = await third.client.get(LEASES, "extender", "ns")
            assert (lease.spec.holder_identity, lease.spec.lease_transitions) == (third.election.holder, 3)
            first.start()

    VirtualLoop().run_until_complete(story())


@pytest.mark.parametrize("seed", range(8))
def test_never_two_lead_on_a_bad_network(seed: int) -> None:
    async def story() -> None:
        chance = random.Random(seed)
        async with processes(3, seed) as made:
            for _ in range(3000):
                if chance.random() < 0.02:
                    network = chance.choice(made).network
                    network.up, network.worst_s = chance.random() < 0.6, chance.choice([0.0, 3.0, 8.0])
                    network.losses = chance.choice([0.0, 0.3])
                await asyncio.sleep(0.1)
                assert sum(process.election.is_held for process in made) <= 1
            for process in made:
                process.network.up, process.network.worst_s, process.network.losses = True, 0.0, 0.0
            first = await leader(made, 3 * LEASE_S)
            first.network.up = False
            await asyncio.sleep(LEASE_S)
            assert await leader(made, 3 * LEASE_S) is not first

    VirtualLoop().run_until_complete(story())
