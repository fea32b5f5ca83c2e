"""How much of what a job asked for its tasks used, and what to ask for instead. Pure, beside `idleness`.

What was not measured is None and leads to no advice. Advice leaves room: a quarter above the greatest use, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from openpai.protocol.job import TaskRole
from openpai.protocol.wording import amount, memory, plural

LEAST_MS: Final = 300_000
"""A job that was measured for less gets no advice: it may still prepare its work."""
ROOM: Final = 1.25
LOW: Final = 0.5
"""The share of processors or memory below which less would do."""
NEAR: Final = 0.95
"""The share from which on a limit is near."""
GPU_LOW_PERCENT: Final = 40.0
GPU_UNUSED_PERCENT: Final = 5.0
GPU_MEMORY_LOW_PERCENT: Final = 25.0
_MB: Final = 2**20
_GB_MB: Final = 1024


@dataclass(frozen=True, slots=True)
class Used:
    """The use of a resource: its mean over time and tasks, and the greatest of one task."""

    mean: float
    most: float


@dataclass(frozen=True, slots=True)
class RoleUse:
    """What the tasks of a role used: each a resource of one task, or of one GPU."""

    tasks: int = 0
    """How many tasks were measured."""
    cpus: Used | None = None
    memory_bytes: Used | None = None
    gpu_percent: Used | None = None
    gpu_memory_percent: Used | None = None
    gpus: int = 0
    """How many GPUs were measured, and how many of them did nothing all the time."""
    gpus_unused: int = 0


@dataclass(frozen=True, slots=True)
class RoleEfficiency:
    """What a role asked for in each task, what it used, and advice."""

    role: TaskRole
    used: RoleUse
    advice: tuple[str, ...]

    @property
    def shares(self) -> Mapping[str, float | None]:
        """Return the used part of what was asked for: of processors and GPUs the mean, of memory the most."""
        requested, used = self.role.resources, self.used
        has_gpus = bool(requested.gpus)
        return {
            "cpu": used.cpus.mean / requested.cpus if used.cpus is not None and requested.cpus else None,
            "memory": used.memory_bytes.most / (requested.memory_mb * _MB)
            if used.memory_bytes is not None and requested.memory_mb
            else None,
            "gpu": used.gpu_percent.mean / 100 if has_gpus and used.gpu_percent is not None else None,
            "gpuMemory": used.gpu_memory_percent.most / 100
            if has_gpus and used.gpu_memory_percent is not None
            else None,
        }


def efficiency_of(
    roles: Sequence[TaskRole], uses: Mapping[str, RoleUse], measured_ms: int
) -> tuple[RoleEfficiency, ...]:
    """Return the efficiency of each task role; `measured_ms` is the time in which it was measured."""
    found = []
    for role in roles:
        used = uses.get(role.name, RoleUse())
        advice = tuple(_advice(role, used)) if measured_ms >= LEAST_MS else ()
        found.append(RoleEfficiency(role, used, advice))
    return tuple(found)


def why_no_advice(roles: Sequence[RoleEfficiency], measured_ms: int) -> str:
    """Return why nothing is advised; empty if something is."""
    if any(role.advice for role in roles):
        return ""
    if not measured_ms:
        return "nothing was measured; running tasks are measured every ten seconds"
    if measured_ms < LEAST_MS:
        return f"it was measured for {measured_ms // 1000} s, and less than {LEAST_MS // 60_000} minutes say too little"
    if any(role.role.resources.gpus and role.used.gpu_percent is None for role in roles):
        return "its processors and memory fit what it asked for, and its GPUs were not measured"
    return "what it asked for fits what it used"


def _advice(role: TaskRole, used: RoleUse) -> Iterator[str]:
    requested = role.resources
    is_waiting = requested.gpus and used.gpu_percent is not None and used.gpu_percent.mean < GPU_LOW_PERCENT
    if used.memory_bytes is not None and requested.memory_mb:
        yield from _of_memory(requested.memory_mb, used.memory_bytes.most / _MB)
    if used.cpus is not None and requested.cpus:
        enough = max(1, math.ceil(used.cpus.most * ROOM))
        if enough <= requested.cpus * LOW:
            most = f"{amount(used.cpus.most)} at a time"
            yield f"each task asked for {plural(requested.cpus, 'CPU')} and used at most {most}: ask for {enough}"
        elif is_waiting and used.cpus.mean >= requested.cpus * NEAR:
            yield f"all {plural(requested.cpus, 'CPU')} of each task were busy while its GPUs waited: ask for more CPUs"
    if requested.gpus and used.gpus and used.gpu_percent is not None:
        busy = f"{used.gpu_percent.mean:.0f} %"
        if used.gpus_unused:
            yield f"{used.gpus_unused} of {plural(used.gpus, 'GPU')} did nothing all the time: ask for fewer"
        elif is_waiting:
            yield f"GPUs were busy for {busy} of the time: use larger batches, load data faster, or ask for fewer"
    if requested.gpus and used.gpu_memory_percent is not None and not used.gpus_unused:
        fullest = used.gpu_memory_percent.most
        if fullest < GPU_MEMORY_LOW_PERCENT:
            yield f"GPU memory was used to {fullest:.0f} % at most: use larger batches, or GPUs with less memory"


def _of_memory(asked_mb: int, most_mb: float) -> Iterator[str]:
    enough_mb = rounded_up_mb(most_mb * ROOM)
    used = memory(max(1, round(most_mb)))
    if enough_mb <= asked_mb * LOW:
        yield f"each task asked for {memory(asked_mb)} of memory and used at most {used}: ask for {memory(enough_mb)}"
    elif most_mb >= asked_mb * NEAR:
        more = memory(max(enough_mb, asked_mb + 1))
        yield f"a task used {used} of {memory(asked_mb)} of memory; beyond that it is killed: ask for {more}"


def rounded_up_mb(mb: float) -> int:
    """Return an amount of memory that is not less, as people write it: 256 MB, 1, 1.5, 2, 3, 4, 6, 8, 12 GB."""
    step = 64.0
    while step < mb:
        if step * 1.5 >= mb and step >= _GB_MB:
            return int(step * 1.5)
        step *= 2
    return int(step)
