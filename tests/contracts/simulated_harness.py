"""Lets the simulated backend sit the contract suite, under the real event loop and the real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from openpai.app.world import SystemClock
from openpai.backends.simulated.backend import SimulatedBackend
from openpai.backends.simulated.cluster import SimulatedCluster
from openpai.backends.simulated.logfiles import LogFiles
from openpai.backends.simulated.nodes import virtual_nodes
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend

_LOOK_EVERY_S = 0.01
_PATIENCE_S = 20.0


class SimulatedPrograms:
    """Programs in the few words a simulated machine knows."""

    def exits(self, code: int) -> str:
        return f"exit {code}"

    def waits(self) -> str:
        return "echo ready\nsleep infinity"

    def waits_to_be_told(self, code: int) -> str:
        return f"read word\nexit {code}"

    def saves_on_term(self, code: int) -> str:
        return f"trap 'echo saved; exit {code}' TERM\necho ready\nsleep infinity"

    def ignores_term(self) -> str:
        return "trap '' TERM\necho ready\nsleep infinity"


class SimulatedHarness:
    """A cluster in memory that outlives the backends connected to it."""

    runs_shell = False
    programs = SimulatedPrograms()
    image = "none"

    def __init__(self, directory: Path) -> None:
        self.logs = directory / "logs"
        self.clock = SystemClock()
        self.cluster = SimulatedCluster(virtual_nodes(2, 4), say=LogFiles(self.logs).say)
        self.node = self.cluster.nodes()[0].name
        self._backend: SimulatedBackend | None = None

    @classmethod
    def why_not(cls) -> str | None:
        return None

    async def start(self) -> Backend:
        backend = SimulatedBackend(self.cluster, self.clock)
        await backend.open()
        self._backend = backend
        return backend

    async def stop(self) -> None:
        if self._backend is not None:
            backend, self._backend = self._backend, None
            await backend.close()

    async def crash(self) -> None:
        if self._backend is not None:
            self._backend.disconnect()
            self._backend = None

    async def destroy(self) -> None:
        await self.stop()

    async def tell(self, key: AttemptKey) -> None:
        self.cluster.tell(key, self.clock.now_ms())

    async def until_said(self, key: AttemptKey, text: str) -> None:
        await self._until(lambda: text in self.output(key))

    async def until_gone(self, key: AttemptKey) -> None:
        await self._until(lambda: self.processes(key) == 0)

    def output(self, key: AttemptKey) -> str:
        path = Path(self.logs, key.path(), "stdout.log")
        return path.read_text() if path.exists() else ""

    def processes(self, key: AttemptKey) -> int:
        return sum(task.key == key for task in self.cluster.running())

    async def _until(self, is_so: Callable[[], bool]) -> None:
        # Time goes on in the cluster also while no server is connected that would tell it so.
        async with asyncio.timeout(_PATIENCE_S):
            while not is_so():
                self.cluster.advance(self.clock.now_ms())
                await asyncio.sleep(_LOOK_EVERY_S)
