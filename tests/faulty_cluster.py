"""A simulated cluster whose nodes die, whose devices break and whose tasks vanish when a test says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from openpai.backends.simulated.cluster import SimulatedCluster, Task
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport


class FaultyCluster(SimulatedCluster):
    """A cluster with faults that no server asks for."""

    def lose(self, key: AttemptKey, now_ms: int) -> None:
        """Remove a running task without a report."""
        self.advance(now_ms)
        task = self._tasks.get(key)
        if task is not None:
            self._end(task, ExitReport(137, ExitReason.LOST, "it vanished"))

    def kill_node(self, name: str, now_ms: int) -> None:
        """Kill a node with every task on it."""
        self.advance(now_ms)
        self._nodes[name] = replace(self._nodes[name], is_healthy=False, message=f"node {name} does not answer")
        for task in list(self._tasks.values()):
            if task.node == name:
                self._end(task, ExitReport(137, ExitReason.LOST, f"node {name} died"))

    def revive_node(self, name: str, now_ms: int) -> None:
        """Bring a dead node back, empty."""
        self.advance(now_ms)
        self._nodes[name] = replace(self._nodes[name], is_healthy=True, message="")

    def set_bad_devices(self, name: str, devices: Iterable[int]) -> None:
        """Set which devices of a node are bad; tasks on them run on."""
        self._nodes[name] = replace(self._nodes[name], bad_devices=frozenset(devices))

    def running(self) -> tuple[Task, ...]:
        """Return the running tasks, to check that no device has two."""
        return tuple(task for task in self._tasks.values() if task.exit is None)
