"""Measures the tasks of a backend on this machine, in a thread, with the GPUs that were granted to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from openpai.backends.host.gpu_use import GpuReader, NoGpus, open_gpus
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.backends.host.task_use import Measuring, Place
from openpai.lifecycle.model import AttemptKey
from openpai.ports.clock import Clock
from openpai.ports.task_usage import TaskSample


class HostMeasuring:
    """Takes samples of tasks, one round at a time."""

    def __init__(self, clock: Clock, gpus: Gpus, open_: Callable[[Sequence[str]], GpuReader] = open_gpus) -> None:
        self._clock = clock
        self._granted = gpus
        self._open = open_
        self._gpus: GpuReader | None = None if gpus.model != VIRTUAL else NoGpus()
        self._measuring = Measuring()
        self._lock = asyncio.Lock()

    async def measure(
        self, places: Sequence[Place], devices: Mapping[AttemptKey, tuple[int, ...]]
    ) -> tuple[TaskSample, ...]:
        """Return a sample of each task; `devices` are the granted devices of each."""
        async with self._lock:
            return await asyncio.to_thread(self._measure, places, devices, self._clock.now_ms())

    def _measure(
        self, places: Sequence[Place], devices: Mapping[AttemptKey, tuple[int, ...]], now_ms: int
    ) -> tuple[TaskSample, ...]:
        samples = self._measuring.measure(places, now_ms)
        granted = {device for sample in samples for device in devices.get(sample.key, ())}
        if not granted:
            return tuple(samples)
        if self._gpus is None:
            # Only now: the driver's library takes a while to start, and a machine without GPUs needs none.
            self._gpus = self._open(self._granted.names)
        found = self._gpus.read(sorted(granted))
        return tuple(
            replace(
                sample,
                devices=tuple(found[device] for device in devices.get(sample.key, ()) if device in found),
            )
            for sample in samples
        )
