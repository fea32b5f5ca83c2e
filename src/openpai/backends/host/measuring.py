"""Measures the tasks of a backend on this machine, in a thread, with the GPUs that were granted to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.gpu_use import GpuReader, NoGpus, open_gpus
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.backends.host.reported import reported
from openpai.backends.host.stacks import stacks_of
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

    async def measure(self, places: Sequence[Place], attempts: Iterable[HostAttempt]) -> tuple[TaskSample, ...]:
        """Return a sample of each task with its granted devices and what it reported about its progress."""
        by_key = {attempt.key: attempt for attempt in attempts}
        async with self._lock:
            return await asyncio.to_thread(self._measure, places, by_key, self._clock.now_ms())

    async def keep_stacks(
        self, places: Sequence[Place], attempts: Iterable[HostAttempt], logs_root: str
    ) -> dict[AttemptKey, str]:
        """Write what the processes of tasks do to their runtime logs; return it of each in a few words."""
        found = await asyncio.to_thread(_stacks, self._measuring, places)
        for attempt in attempts:
            if attempt.key in found:
                attempt.directory.note(logs_root, f"what its processes do now:\n{found[attempt.key][0]}")
        return {key: summary for key, (_, summary) in found.items()}

    def _measure(
        self, places: Sequence[Place], attempts: Mapping[AttemptKey, HostAttempt], now_ms: int
    ) -> tuple[TaskSample, ...]:
        samples = [
            _with_progress(sample, attempts[sample.key], now_ms) for sample in self._measuring.measure(places, now_ms)
        ]
        devices = {key: attempt.devices for key, attempt in attempts.items()}
        granted = {device for sample in samples for device in devices[sample.key]}
        if not granted:
            return tuple(samples)
        if self._gpus is None:
            # Only now: the driver's library takes a while to start, and a machine without GPUs needs none.
            self._gpus = self._open(self._granted.names)
        found = self._gpus.read(sorted(granted))
        return tuple(
            replace(
                sample,
                devices=tuple(found[device] for device in devices[sample.key] if device in found),
            )
            for sample in samples
        )


def _stacks(measuring: Measuring, places: Sequence[Place]) -> dict[AttemptKey, tuple[str, str]]:
    return {
        place.key: stacks_of([process.pid for process in processes])
        for place, processes in measuring.processes(places)
        if processes
    }


def _with_progress(sample: TaskSample, attempt: HostAttempt, now_ms: int) -> TaskSample:
    found = reported(attempt.directory)
    if found is None:
        return sample
    # A task may set the time of its file.
    return replace(sample, progress=found[0], progress_at_ms=min(found[1], now_ms))
