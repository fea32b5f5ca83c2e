"""Measures containers from their cgroups, which costs the Engine one question for each container in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openpai.backends.docker.engine import Engine, EngineError
from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.measuring import HostMeasuring
from openpai.backends.host.task_use import Place, cgroup_mounts, cgroup_places
from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import TaskSample
from openpai.runtime.inspecting import ProcessSummary


class ContainerMeasuring:
    """Takes samples of the containers of tasks."""

    def __init__(self, engine: Engine, measuring: HostMeasuring, *, has_network: bool) -> None:
        self._engine = engine
        self._measuring = measuring
        self._has_network = has_network
        self._mounts = cgroup_mounts()
        self._places: dict[str, Place] = {}

    async def measure(self, attempts: Sequence[HostAttempt]) -> tuple[TaskSample, ...]:
        """Return a sample of each container that runs on this machine."""
        self._places = await self._known(attempts)
        return await self._measuring.measure(tuple(self._places.values()), attempts)

    async def keep_stacks(self, attempts: Sequence[HostAttempt], logs_root: str) -> Mapping[AttemptKey, ProcessSummary]:
        """Write what the processes of containers do to their runtime logs; return it of each in a few words."""
        places = await self._known(attempts)
        return await self._measuring.keep_stacks(tuple(places.values()), attempts, logs_root)

    async def _known(self, attempts: Sequence[HostAttempt]) -> dict[str, Place]:
        found: dict[str, Place] = {}
        for attempt in attempts:
            place = self._places.get(attempt.name) or await self._place(attempt)
            if place is not None:
                found[attempt.name] = place
        return found

    async def _place(self, attempt: HostAttempt) -> Place | None:
        try:
            pid = (await self._engine.inspect(attempt.name)).pid
        except EngineError:
            return None
        if not pid:
            return None
        place = cgroup_places(attempt.key, pid, self._mounts, has_network=self._has_network)
        # An Engine on another machine, or in a virtual one, has no processes here.
        return place if place.cgroup else None
