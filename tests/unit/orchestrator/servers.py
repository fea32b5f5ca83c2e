"""A whole platform in virtual time: the real server over a simulated cluster and a database in memory.

An hour of it passes in a moment, and always in the same order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Any, Final

from openpai.app import loops
from openpai.backends.simulated.backend import SimulatedBackend, virtual_nodes
from openpai.orchestrator.commands import PlatformCommands
from openpai.orchestrator.leader import Leader
from openpai.ports.admission import AdmitsJobs
from openpai.ports.backend import NodeSeen
from openpai.ports.clock import Clock
from openpai.ports.platform import Holding, Submitted, Submitter
from openpai.ports.queries import EventRow, JobRow
from openpai.scheduler.interface import Amount
from openpai.scheduler.model import Wait
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.queries import SqlJobQueries
from openpai.store.usage import SqlUsageStore
from tests.faulty_cluster import FaultyCluster
from tests.newest import fill
from tests.simulation.loop import Numbered, VirtualClock, VirtualLoop
from tests.simulation.server import Server

STEP_S: Final = 0.5
PATIENCE_S: Final = 3600

FOUR: Final = virtual_nodes(4, 4, cpus=16)


def job(name: str, *, gpus: int = 1, instances: int = 1, command: str = "sleep 100000", **more: Any) -> bytes:
    """Return a job file with one role; `extras`, `vc` and further roles by name."""
    extras, vc, roles = more.pop("extras", {}), more.pop("vc", None), more.pop("roles", None)
    role = {
        "instances": instances,
        "dockerImage": "i",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": gpus},
        "commands": [command],
    }
    document: dict[str, Any] = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "i", "uri": "busybox"}],
        "taskRoles": {each: {**role, **about} for each, about in (roles or {"worker": {}}).items()},
        "extras": extras,
    }
    if vc is not None:
        document["defaults"] = {"virtualCluster": vc}
    return json.dumps({**document, **more}).encode()


class ClockOfNodes:
    """A clock that differs from that of the server."""

    def __init__(self, right: Clock, ahead_ms: int) -> None:
        self._right = right
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        """Return the time that nodes report."""
        return self._right.now_ms() + self._ahead_ms


class Servers:
    """Servers over one cluster and one database."""

    def __init__(self, loop: VirtualLoop, nodes: tuple[NodeSeen, ...], ahead_ms: int = 0) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.clock_of_nodes = ClockOfNodes(self.clock, ahead_ms)
        self.cluster = FaultyCluster(nodes)
        self.database = Database("sqlite://", inline=True)
        fill(self.database)
        with closing(self.database.engine.raw_connection()) as connection:
            self._connection: Any = connection.driver_connection
        self.names = Numbered()
        self.queries = SqlJobQueries(self.database)
        self.settings = SqlSettingsStore(self.database)
        self.usage = SqlUsageStore(self.database)
        self.servers: dict[str, Server] = {}
        self.queue: AdmitsJobs | None = None
        """Admits the jobs of the virtual clusters in `queues`, from the next start on."""
        self.queues: Mapping[str, str] = {"default": "team-a"}
        self.made = 0

    async def start(self, place: str = "a") -> Server:
        """Start a server; the first one leads."""
        self.made += 1
        backend = SimulatedBackend(self.cluster, self.clock_of_nodes, steady=self.clock)
        server = Server(
            place, self.made, self.database, backend, self.clock, self.names, lambda what: None, queue=self.queue,
            queues=self.queues,
        )  # fmt: skip
        server.turnstile.open()
        self.servers[place] = server
        await server.start()
        await self.loop.settle()
        return server

    async def restart(self, place: str = "a") -> Server:
        """Let a server die and start another at its place."""
        await self.servers.pop(place).die()
        return await self.start(place)

    @property
    def commands(self) -> PlatformCommands:
        """Return the commands of the first server."""
        return self.servers["a"].commands

    @property
    def leader(self) -> Leader:
        """Return the state of the leader."""
        return next(server.commands.leader for server in self.servers.values() if server.commands.leader is not None)

    async def submit(self, name: str, by: Submitter | str = "ann", **options: Any) -> Submitted:
        """Submit a job."""
        submitter = Submitter(by) if isinstance(by, str) else by
        return await self.commands.submit(submitter, job(name, **options))

    async def row(self, name: str, user: str = "ann") -> JobRow:
        """Return a job."""
        found = await self.queries.job(user, name)
        assert found is not None
        return found

    async def why(self, name: str) -> tuple[Wait, ...]:
        """Return why one of ann's jobs waits."""
        return await self.commands.why((await self.row(name)).id)

    async def in_the_way(self, name: str) -> tuple[Holding, ...]:
        """Return the jobs that hold what one of ann's jobs waits for."""
        return await self.commands.in_the_way((await self.row(name)).id)

    async def borrowed(self, name: str) -> Amount:
        """Return what one of ann's jobs uses without a guarantee."""
        return await self.commands.borrowed((await self.row(name)).id)

    async def events(self, name: str, user: str = "ann") -> list[EventRow]:
        """Return a job's history, oldest first."""
        return list(reversed(await self.queries.events((await self.row(name, user)).id)))

    async def until(self, is_so: Callable[[], Awaitable[bool]], within_s: float = PATIENCE_S) -> float:
        """Let time pass until something is so; return how much did."""
        began_s = self.loop.time()
        while not await is_so():
            assert self.loop.time() - began_s < within_s, "it never became so"
            await asyncio.sleep(STEP_S)
        return self.loop.time() - began_s

    async def in_phase(self, name: str, phase: str, user: str = "ann", within_s: float = PATIENCE_S) -> float:
        """Let time pass until a job is in a phase; return how much did."""

        looked: int | None = None

        async def is_so() -> bool:
            nonlocal looked
            before, looked = looked, self._connection.total_changes
            return looked != before and (await self.row(name, user)).phase == phase

        return await self.until(is_so, within_s)

    async def is_quiet(self) -> bool:
        """Return whether the backend has every action."""
        return not self.leader.active.to_act and not self.leader.active.to_forget

    def where(self, name_of_job: str) -> set[tuple[str, tuple[int, ...]]]:
        """Return nodes and devices on which a job runs."""
        return {(task.node, task.devices) for task in self.cluster.running() if task.key.job == name_of_job}


def live(story: Callable[[Servers], Awaitable[None]], nodes: tuple[NodeSeen, ...] = FOUR, *, ahead_ms: int = 0) -> None:
    """Live through a story from a first server's start to its end, on nodes whose clocks are `ahead_ms` ahead."""
    loop = VirtualLoop()
    servers = Servers(loop, nodes, ahead_ms)
    before = loops.INBOX_EVERY_S, loops.RENEW_EVERY_S
    # As in the simulation: most of an hour would be spent looking into an empty inbox, and renewing a lease in time.
    loops.INBOX_EVERY_S = loops.RENEW_EVERY_S = 5.0  # type: ignore[misc]

    async def whole() -> None:
        await servers.start()
        try:
            await story(servers)
        finally:
            for server in servers.servers.values():
                await server.die()

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()
        servers.database.close()
        loops.INBOX_EVERY_S, loops.RENEW_EVERY_S = before  # type: ignore[misc]


def promised(servers: Servers) -> dict[str, int]:
    """Return how many GPUs each virtual cluster is promised."""
    return {view.name: view.total.gpus for view in servers.leader.scheduler.virtual_clusters()}


async def as_answer(is_so: bool) -> bool:
    """Return what `Servers.until` awaits."""
    return is_so
