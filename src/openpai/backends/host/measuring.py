"""Measures the tasks of a backend on this machine, in a thread, with the GPUs that were granted to them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.gpu_reading import GpuReader
from openpai.backends.host.gpu_use import GrantedGpus, open_gpus
from openpai.backends.host.machine import Gpus
from openpai.backends.host.probing import Probe
from openpai.backends.host.stacks import stacks_of
from openpai.backends.host.task_use import Measuring, Place
from openpai.lifecycle.model import AttemptKey
from openpai.ports.clock import Clock
from openpai.ports.task_usage import DeviceUse, TaskSample
from openpai.runtime.inspecting import ProcessSummary
from openpai.runtime.progress import PROGRESS_FILE, TAIL_BYTES, Progress, read_progress

log: Final = structlog.get_logger(__name__)
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HostMeasuring:
    """Takes samples of tasks, one round at a time."""

    def __init__(self, clock: Clock, gpus: Gpus, open_: Callable[[Gpus], GpuReader] = open_gpus) -> None:
        self._clock = clock
        self._gpus = GrantedGpus(gpus, open_)
        self._wanted: Sequence[int] = ()
        self._reading = Probe(self._read)
        self._measuring = Measuring()
        self._lock = asyncio.Lock()

    async def measure(self, places: Sequence[Place], attempts: Iterable[HostAttempt]) -> tuple[TaskSample, ...]:
        """Return a sample of each task with its granted devices and what it reported about its progress."""
        by_key = {attempt.key: attempt for attempt in attempts}
        async with self._lock:
            now_ms = self._clock.now_ms()
            # Without tasks there is nothing to read, and a thread would be woken for nothing.
            samples = await asyncio.to_thread(self._measure, places, by_key, now_ms) if places else ()
            devices = {sample.key: by_key[sample.key].devices for sample in samples}
            self._wanted = sorted({device for granted in devices.values() for device in granted})
            if not self._wanted:
                return samples
            found = await self._used()
        return tuple(
            replace(sample, devices=tuple(found[device] for device in devices[sample.key] if device in found))
            for sample in samples
        )

    async def keep_stacks(
        self, places: Sequence[Place], attempts: Iterable[HostAttempt], logs_root: str
    ) -> dict[AttemptKey, ProcessSummary]:
        """Write what the processes of tasks do to their runtime logs; return it of each in short."""
        found = await asyncio.to_thread(_stacks, self._measuring, places)
        for attempt in attempts:
            if attempt.key in found:
                attempt.directory.note(logs_root, f"what its processes do now:\n{found[attempt.key][0]}")
        return {key: summary for key, (_, summary) in found.items()}

    def _measure(
        self, places: Sequence[Place], attempts: Mapping[AttemptKey, HostAttempt], now_ms: int
    ) -> tuple[TaskSample, ...]:
        return tuple(
            _with_progress(sample, attempts[sample.key], now_ms) for sample in self._measuring.measure(places, now_ms)
        )

    async def _used(self) -> Mapping[int, DeviceUse]:
        """Return what is known of the wanted GPUs; while their driver hangs nothing, and tasks are measured without."""
        try:
            return await self._reading.result() or {}
        except Exception as error:
            log.error("the GPUs of tasks cannot be read", error=str(error))
            return {}

    def _read(self) -> dict[int, DeviceUse]:
        return self._gpus.reader().read(self._wanted)


def _stacks(measuring: Measuring, places: Sequence[Place]) -> dict[AttemptKey, tuple[str, ProcessSummary]]:
    return {
        place.key: stacks_of([process.pid for process in processes])
        for place, processes in measuring.processes(places)
        if processes
    }


def _with_progress(sample: TaskSample, attempt: HostAttempt, now_ms: int) -> TaskSample:
    found = _reported(attempt.directory)
    if found is None:
        return sample
    # A task may set the time of its file.
    return replace(sample, progress=found[0], progress_at_ms=min(found[1], now_ms))


def _reported(directory: TaskDirectory) -> tuple[Progress, int] | None:
    """Return what a task reported last, and when, in ms; None for no report, and for anything but a plain file."""
    try:
        file = os.open(f"{directory.path}/{PROGRESS_FILE}", _FLAGS)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return None
        text = os.pread(file, TAIL_BYTES, max(0, about.st_size - TAIL_BYTES)).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(file)
    found = read_progress(text)
    return None if found is None else (found, about.st_mtime_ns // 1_000_000)
