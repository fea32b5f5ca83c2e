"""What running tasks use: processors, memory, disks, network and GPUs.

`MeasuresTasks` is what a backend that can measure its tasks does; `TaskUsage` is the one entrance to the results, for
the API, for the detection of hangs, and for monitoring, which keeps them. A value that cannot be measured is None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from openpai.lifecycle.model import AttemptKey
from openpai.runtime.inspecting import ProcessSummary
from openpai.runtime.progress import Progress


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A GPU of a task at a moment."""

    index: int
    """Its number on the node."""
    busy_percent: float | None = None
    """The share of the time in which a kernel ran. It is 100 also while a kernel waits for others."""
    tensor_percent: float | None = None
    """How busy its tensor cores are, where the driver measures that."""
    memory_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    is_slice: bool = False
    """Whether it is a MIG slice, whose power is not known and whose activity only newer cards measure."""
    memory_reserved_bytes: int | None = None
    """What the driver keeps for itself: no part of the memory that is used, nor of what is free."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of this machine at a moment, whether a task has it or not."""

    use: DeviceUse
    name: str = ""
    """The driver's own name of it (UUID), which stays when the numbers change."""
    health: Mapping[str, float] = field(default_factory=dict)
    """Clocks, errors and states, by DCGM's names."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What a task has used since it started. Counters never decrease."""

    cpu_s: float = 0.0
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_received_bytes: int | None = None
    """None where tasks share the network of their node."""
    network_sent_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TaskSample:
    """What a backend measured of one running task attempt."""

    key: AttemptKey
    at_ms: int
    counters: Counters
    memory_bytes: int = 0
    """Without the file cache."""
    processes: int = 0
    stopped: int = 0
    """How many of its processes are stopped, as by SIGSTOP or a debugger."""
    devices: tuple[DeviceUse, ...] = ()
    progress: Progress | None = None
    """What the task reported last."""
    progress_at_ms: int = 0
    """When it reported that."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a task used per second between its last two samples."""

    cpus: float
    disk_read: float | None = None
    disk_written: float | None = None
    network_received: float | None = None
    network_sent: float | None = None


@dataclass(frozen=True, slots=True)
class TaskUse:
    """The newest sample of a task; `rates` is None until there are two."""

    sample: TaskSample
    rates: Rates | None = None
    steps_per_s: float | None = None
    """How fast the task progresses, over the last minutes; None until it has reported two steps."""

    @property
    def left_s(self) -> float | None:
        """Return how long the task will take for its remaining steps at this rate; None where that is unknown."""
        progress = self.sample.progress
        if progress is None or progress.total is None or not self.steps_per_s:
            return None
        return max(0.0, progress.total - progress.step) / self.steps_per_s


@runtime_checkable
class MeasuresTasks(Protocol):
    """A backend that can measure what its tasks use."""

    async def measure(self) -> tuple[TaskSample, ...]:
        """Return a sample of every running task attempt; one that cannot be measured now is left out."""
        ...


@runtime_checkable
class ReadsDevices(Protocol):
    """A backend whose node is this machine, with the GPUs in it."""

    def read_devices(self) -> tuple[Device, ...]:
        """Return all GPUs as they are now; one that does not answer is left out. It blocks: call it in a thread."""
        ...


@runtime_checkable
class MeasuresInTurns(Protocol):
    """A backend that measures only some tasks at a time, where there are many."""

    def measure_first(self, jobs: Collection[str]) -> None:
        """Measure the tasks of these jobs, named by their ids, before those of others from now on."""
        ...


@runtime_checkable
class KeepsEvidence(Protocol):
    """A backend that can look into the processes of running tasks."""

    async def keep_stacks(self, keys: Sequence[AttemptKey]) -> Mapping[AttemptKey, ProcessSummary]:
        """Write what the processes of these tasks do to their runtime logs; return it of each in short."""
        ...


class TaskUsage(Protocol):
    """The newest samples of all running tasks, on the server that leads."""

    def newest(self) -> Mapping[AttemptKey, TaskUse]:
        """Return what every running task uses, as it was measured last."""
        ...

    def progress(self) -> Mapping[str, TaskUse]:
        """Return the use of the task that is least far, by the ids of the jobs that report progress."""
        ...

    def reported(self, job: str) -> Mapping[str, float]:
        """Return the values, by name, that the task of a job that is least far reported with its progress."""
        ...

    def watch(self, jobs: Iterable[str]) -> None:
        """Measure these jobs, named by their ids, before others: their use is needed without gaps."""
        ...
