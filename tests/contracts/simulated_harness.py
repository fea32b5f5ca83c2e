"""Lets the simulated backend sit the contract suite, under the real event loop and the real time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from openpai.app.clock import SystemClock
from openpai.backends.simulated.backend import LogFiles, SimulatedBackend, virtual_nodes
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend
from tests.contracts.harness import Harness, Programs
from tests.faulty_cluster import FaultyCluster


class SimulatedPrograms(Programs):
    """Programs in the few words a simulated machine knows, which has no loops."""

    def waits(self) -> str:
        return "echo ready\nsleep infinity"

    def runs_until_resumed(self, code: int) -> str:
        return f"read word\nexit {code}"

    def saves_on_term(self, code: int) -> str:
        return f"trap 'echo saved; exit {code}' TERM\n{self.waits()}"

    def ignores_term(self) -> str:
        return f"trap '' TERM\n{self.waits()}"


class SimulatedHarness(Harness):
    """A cluster in memory that outlives the backends connected to it."""

    runs_shell = False
    measures = False
    programs = SimulatedPrograms()

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.clock = SystemClock()
        self.cluster = FaultyCluster(virtual_nodes(2, 4), say=LogFiles(self.logs).say)

    def make(self) -> Backend:
        return SimulatedBackend(self.cluster, self.clock)

    async def resume(self, key: AttemptKey) -> None:
        self.cluster.resume(key, self.clock.now_ms())

    def processes(self, key: AttemptKey) -> int:
        return sum(task.key == key for task in self.cluster.running())

    async def until(self, is_so: Callable[[], bool]) -> None:
        def is_so_by_now() -> bool:
            # Time passes in the cluster also while no server is connected.
            self.cluster.advance(self.clock.now_ms())
            return is_so()

        await super().until(is_so_by_now)
