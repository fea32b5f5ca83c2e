"""A whole server without HTTP: the real commands, leadership, loops, scheduler and store, behind a turnstile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from openpai.app.leadership import Leadership
from openpai.backends.simulated.backend import SimulatedBackend
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.commands import PlatformCommands
from openpai.orchestrator.leader import Leader
from openpai.ports.admission import AdmitsJobs
from openpai.ports.logs import LogChunk
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.usage import SqlUsageStore
from openpai.store.vault import Vault
from tests.simulation.loop import Numbered, VirtualClock
from tests.simulation.turnstile import Through, Turnstile

KEY: Final = "c2ltdWxhdGlvbi1zaW11bGF0aW9uLXNpbXVsYXRpb24="


class NoLogs:
    """`ports.logs.LogReader` of tasks that write nothing."""

    async def streams(self, key: AttemptKey) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> LogChunk:
        """Refuse."""
        raise Refused("NoTaskLogError", f"{key.path()} has no logs")

    async def sizes(self, keys: Sequence[AttemptKey]) -> Sequence[int]:
        """Return nothing for each."""
        return [0] * len(keys)

    def follow(self, key: AttemptKey, streams: tuple[str, ...], offsets: dict[str, int]) -> AsyncIterator[LogChunk]:
        """Refuse."""
        raise Refused("NoTaskLogError", f"{key.path()} has no logs")


class Server:
    """One process of the platform, from its start to its death."""

    def __init__(
        self,
        place: str,
        number: int,
        database: Database,
        backend: Any,
        clock: VirtualClock,
        names: Numbered,
        look: Callable[[str], None],
        *,
        term: Callable[[int], AbstractAsyncContextManager[object]] = nullcontext,
        queue: AdmitsJobs | None = None,
        queues: Mapping[str, str] = MappingProxyType({DEFAULT_VIRTUAL_CLUSTER: "team-a"}),
    ) -> None:
        """`queue` admits the jobs of these virtual clusters, as their queues say."""
        self.place = place
        self.name = f"{place}{number}"
        self.turnstile = Turnstile()
        self.frozen_until_ms = 0
        self.backend = backend

        def through(name: str, port: Any) -> Any:
            return Through(name, port, self.turnstile, lambda what: look(f"{self.name} {what}"))

        store = through("store", SqlJobStore(database, clock.now_ms))
        vault = Vault(KEY)
        settings = through("settings", SqlSettingsStore(database))
        usage = through("usage", SqlUsageStore(database))
        queues = queues if queue is not None else {}
        self.commands = PlatformCommands(store, vault, clock, names, settings=settings, usage=usage, queues=queues)
        new_leader = partial(
            Leader,
            store=store,
            backend=through("backend", self.backend),
            secrets=vault,
            logs=through("logs", NoLogs()),
            clock=clock,
            settings=settings,
            usage=usage,
            admits=queue,
            queues=queues,
        )
        self._leadership = Leadership(
            store, clock, self.commands, new_leader, holder=f"{place}/{number}", housekeeping=_nothing, term=term
        )
        self._leadership.url = f"http://{self.name}"
        self._tasks: list[asyncio.Task[Any]] = []
        self.leading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to lead, or to wait for that."""
        if isinstance(self.backend, SimulatedBackend):
            await self.backend.open()
        self.leading = self.spawn(self._leadership.run())

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something on this server until it dies."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks = [*(each for each in self._tasks if not each.done()), task]
        return task

    async def die(self) -> None:
        """Vanish as by `kill -9`: nothing that was under way has any further effect."""
        self.turnstile.is_dead = True
        self.cut_off()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut_off(self) -> None:
        """Let nothing more come from the cluster, or get there."""
        self.backend.disconnect()


async def _nothing() -> None:
    return None
