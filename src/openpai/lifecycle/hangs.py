"""Which tasks of a job hang: they run, and for a set time did nothing that shows.

A task is active while it writes to its log, reports progress, uses a processor, or its GPUs draw power or use their
tensor cores. How busy a GPU claims to be does not count: it is 100 % in a deadlock. So no job is blamed that compiles,
loads data or evaluates. A job hangs when none of its running tasks is active; a task with stopped processes hangs by
itself, whatever the others do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from openpai.lifecycle.model import TaskId

CPU_SHARE: Final = 0.01
"""Processors that an idle program may use: a shell that looks for a file every second, a thread that reports."""
POWER_SHARE: Final = 0.25
"""The share of its power limit that a GPU may draw while it does nothing or waits for others."""
TENSOR_PERCENT: Final = 1.0
APART_MS: Final = 10_000
"""Tasks that became quiet closer together cannot be put in order."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a task showed at a moment."""

    at_ms: int
    cpu_s: float = 0.0
    log_bytes: int = 0
    step: float | None = None
    progress_at_ms: int = 0
    is_stopped: bool = False
    """Whether it has stopped processes."""
    power_share: float = 0.0
    """The largest share of its limit that one of its GPUs draws."""
    tensor_percent: float = 0.0


@dataclass(frozen=True, slots=True)
class Activity:
    """When a task was active last, and what it showed last."""

    last: Sign
    active_at_ms: int
    stopped_at_ms: int | None = None
    """Since when it has had stopped processes."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Tasks that hang: those to blame, or none where all are alike."""

    blamed: tuple[TaskId, ...]
    for_ms: int
    reason: str
    """Why they are blamed, as the rest of a sentence about them."""


def watched(before: Activity | None, sign: Sign) -> Activity:
    """Return the activity of a task after a sign of it; one that is new counts as active."""
    stopped_at_ms = before.stopped_at_ms if before is not None else None
    stopped_at_ms = (sign.at_ms if stopped_at_ms is None else stopped_at_ms) if sign.is_stopped else None
    if before is None or _is_active(before.last, sign):
        return Activity(sign, sign.at_ms, stopped_at_ms)
    return replace(before, last=sign, stopped_at_ms=stopped_at_ms)


def find_hang(tasks: Mapping[TaskId, Activity], now_ms: int, timeout_ms: int) -> Hang | None:
    """Return which of the running tasks of a job hang; None while one of them may be working."""
    if not tasks:
        return None
    stopped = [
        id_
        for id_, task in tasks.items()
        if task.stopped_at_ms is not None and now_ms - max(task.stopped_at_ms, task.active_at_ms) >= timeout_ms
    ]
    if stopped:
        since_ms = min(max(tasks[id_].stopped_at_ms or 0, tasks[id_].active_at_ms) for id_ in stopped)
        return Hang(tuple(stopped), now_ms - since_ms, "its processes are stopped, as by SIGSTOP or a debugger")
    quiet_ms = min(now_ms - task.active_at_ms for task in tasks.values())
    if quiet_ms < timeout_ms:
        return None
    return Hang(*_blamed(tasks, quiet_ms))


def _blamed(tasks: Mapping[TaskId, Activity], quiet_ms: int) -> tuple[tuple[TaskId, ...], int, str]:
    if len(tasks) == 1:
        return tuple(tasks), quiet_ms, "it is the only task that runs"
    steps = {id_: step for id_, task in tasks.items() if (step := task.last.step) is not None}
    behind = _least(steps)
    if len(steps) == len(tasks) and behind:
        return behind, quiet_ms, f"it is the only one that has not passed step {min(steps.values()):g}"
    first, second, *_ = sorted(tasks, key=lambda id_: tasks[id_].active_at_ms)
    if tasks[second].active_at_ms - tasks[first].active_at_ms >= APART_MS:
        return (first,), quiet_ms, "it was the first to become quiet"
    return (), quiet_ms, "all became quiet at the same time"


def _least(values: Mapping[TaskId, float]) -> tuple[TaskId, ...]:
    """Return the one with the smallest value, if it is the only one."""
    least = min(values.values(), default=0.0)
    found = tuple(id_ for id_, value in values.items() if value == least)
    return found if len(found) == 1 else ()


def _is_active(before: Sign, sign: Sign) -> bool:
    past_s = (sign.at_ms - before.at_ms) / 1000
    return (
        sign.cpu_s - before.cpu_s > CPU_SHARE * past_s
        or sign.log_bytes != before.log_bytes
        or (sign.step, sign.progress_at_ms) != (before.step, before.progress_at_ms)
        or sign.power_share > POWER_SHARE
        or sign.tensor_percent > TENSOR_PERCENT
    )
