"""When a job holds GPUs and does not use them. Pure, beside `hangs`, which says when it cannot go on.

How busy a GPU claims to be does not count: it is 100 % while a kernel waits, and 0 % for minutes while data is loaded.
A GPU is unused only if its task neither progresses nor reads, writes, prints or computes, and one of two more signs
agrees: its tensor cores and kernels do nothing, or it draws hardly more power than without work. A sign that cannot be
measured does not count, so a job without signs is never idle. What a task does now and then without its GPUs, for less
than a twentieth of the time, ends no idleness. A job is idle when all GPUs of all its tasks are.

The power of a GPU says nothing of one of its slices. Where the driver does not measure the activity of a slice either,
it is unused while its memory does not change, and whatever its task does ends that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openpai.lifecycle.model import AttemptKey

TENSOR_PERCENT: Final = 1.0
BUSY_PERCENT: Final = 5.0
POWER_SHARE: Final = 0.25
"""The share of its limit that a GPU may draw without work, where its idle power is not known."""
POWER_NEAR: Final = 0.15
"""How far above the least power that was seen a GPU counts as near it."""
CPU_SHARE: Final = 0.05
"""Processors that a task without work may use: an open notebook, a thread that reports."""
IO_BYTES_PER_S: Final = 16_384.0
BLIP_SHARE: Final = 0.05
"""The part of its idle time in which a task may do something without its GPUs, and is idle all the same."""
BLIP_MS: Final = 30_000
"""What it may do so from the beginning on."""
PAST_MAX_MS: Final = 60_000
"""More time between two samples does not count: nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What one GPU of a task showed."""

    busy_percent: float | None = None
    tensor_percent: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    memory_bytes: int | None = None
    is_slice: bool = False

    @property
    def is_known_by_memory(self) -> bool:
        """Return whether it is a slice whose activity is not measured."""
        return self.is_slice and self.busy_percent is None and self.tensor_percent is None


@dataclass(frozen=True, slots=True)
class Sign:
    """What a task with GPUs showed at a moment; counters since it started."""

    at_ms: int
    gpus: tuple[Gpu, ...]
    cpu_s: float = 0.0
    io_bytes: int | None = None
    step: float | None = None
    progress_at_ms: int = 0
    log_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """For how long a task has not used its GPUs."""

    last: Sign
    idle_ms: int = 0
    stuck_ms: int = 0
    """For how long it has done nothing that shows, whatever its GPUs claim."""
    least_power_w: tuple[float | None, ...] = ()
    """The least power of each GPU so far."""
    blip_ms: int = 0
    """For how long it did something without its GPUs since it became idle."""


def rested(before: Rest | None, sign: Sign) -> Rest:
    """Return what is known of a task after a sign of it; one that is new counts as at work."""
    if before is None or len(before.last.gpus) != len(sign.gpus):
        return Rest(sign, least_power_w=tuple(gpu.power_w for gpu in sign.gpus))
    least = tuple(
        gpu.power_w if known is None else known if gpu.power_w is None else min(known, gpu.power_w)
        for known, gpu in zip(before.least_power_w, sign.gpus, strict=True)
    )
    past_ms = sign.at_ms - before.last.at_ms
    if past_ms <= 0:
        return before
    is_quiet = _is_quiet(before.last, sign, past_ms / 1000)
    is_unused = bool(sign.gpus) and all(map(_is_unused, sign.gpus, before.last.gpus, least))
    past_ms = min(past_ms, PAST_MAX_MS)
    idle_ms, blip_ms = 0, 0
    if is_unused and is_quiet:
        idle_ms, blip_ms = before.idle_ms + past_ms, before.blip_ms
    elif is_unused and before.idle_ms and not _has_progressed(before.last, sign) and not _is_guessed(sign):
        # A cell of a notebook that runs every few minutes, a thread that prints a line.
        idle_ms, blip_ms = before.idle_ms, before.blip_ms + past_ms
        if blip_ms > BLIP_MS + BLIP_SHARE * idle_ms:
            idle_ms, blip_ms = 0, 0
    return Rest(sign, idle_ms, before.stuck_ms + past_ms if is_quiet else 0, least, blip_ms)


class Verdict(StrEnum):
    """What a job with GPUs does."""

    WORKS = "works"
    IDLE = "idle"
    HANGS = "hangs"
    """It neither uses its GPUs nor goes on, although it has more to do: `hangs` reports it."""


def judge(tasks: Mapping[AttemptKey, Rest], keys: Sequence[AttemptKey]) -> tuple[Verdict, float]:
    """Return what a job does, and for how many seconds: as long as the task that was at work last.

    `keys` are its running tasks with GPUs; it works while one of them has not been measured. A job that has reported
    progress and makes none is not idle, and one of several tasks neither: the others wait for it.
    """
    found = [tasks.get(key) for key in keys]
    known = [rest for rest in found if rest is not None]
    if not known or len(known) < len(found):
        return Verdict.WORKS, 0.0
    stuck_s = min(rest.stuck_ms for rest in known) / 1000
    idle = min(rest.idle_ms for rest in known) / 1000
    if idle > 0 and not any(rest.last.step is not None for rest in known):
        return Verdict.IDLE, idle
    return (Verdict.HANGS, stuck_s) if stuck_s > 0 else (Verdict.WORKS, 0.0)


def _is_guessed(sign: Sign) -> bool:
    """Return whether the work of a GPU could only be seen by what its task does."""
    return any(gpu.is_known_by_memory for gpu in sign.gpus)


def _is_unused(gpu: Gpu, before: Gpu, least_power_w: float | None) -> bool:
    """Return whether a GPU itself says that it is not used; that its task does nothing is the other sign."""
    if gpu.is_known_by_memory:
        return gpu.memory_bytes is not None and gpu.memory_bytes == before.memory_bytes
    if gpu.busy_percent is not None and gpu.busy_percent >= BUSY_PERCENT:
        # A kernel that waits for others keeps a GPU busy: that is a hang.
        return False
    is_still = gpu.busy_percent is not None or (gpu.tensor_percent is not None and gpu.tensor_percent < TENSOR_PERCENT)
    return is_still or _is_near_idle(gpu, least_power_w)


def _is_near_idle(gpu: Gpu, least_power_w: float | None) -> bool:
    if gpu.power_w is None:
        return False
    is_low = gpu.power_limit_w is None or gpu.power_w <= gpu.power_limit_w * POWER_SHARE
    return is_low and (least_power_w is None or gpu.power_w <= least_power_w * (1 + POWER_NEAR))


def _has_progressed(before: Sign, sign: Sign) -> bool:
    return (sign.step, sign.progress_at_ms) != (before.step, before.progress_at_ms)


def _is_quiet(before: Sign, sign: Sign, past_s: float) -> bool:
    """Return whether a task did nothing that shows: no step, no data, no output, hardly a processor."""
    moved = None if before.io_bytes is None or sign.io_bytes is None else sign.io_bytes - before.io_bytes
    return (
        not _has_progressed(before, sign)
        and sign.log_bytes == before.log_bytes
        and sign.cpu_s - before.cpu_s <= CPU_SHARE * past_s
        and (moved is None or moved <= IO_BYTES_PER_S * past_s)
    )
