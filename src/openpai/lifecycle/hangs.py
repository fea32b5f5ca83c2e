"""Which tasks of a job hang: they run, and for a set time did nothing that shows.

A task is active while it writes to its log, reports progress, uses a processor, or its GPUs draw power or use their
tensor cores. How busy a GPU claims to be does not count: it is 100 % in a deadlock. So no job is blamed that compiles,
loads data or evaluates. A job hangs when none of its running tasks is active; a task with stopped processes hangs by
itself, whatever the others do.

Ranks that wait for others in a collective operation may spin, and then look active. A job whose tasks all use
processors, and neither write nor report as they did before, is a suspect; what its processes do decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from openpai.lifecycle.model import TaskId
from openpai.protocol.wording import exact

CPU_SHARE: Final = 0.01
"""Processors that an idle program may use: a shell that looks for a file every second, a thread that reports."""
POWER_SHARE: Final = 0.25
"""The share of its power limit that a GPU may draw while it does nothing or waits for others."""
TENSOR_PERCENT: Final = 1.0
OUTPUTS_MIN: Final = 3
"""A task that wrote or reported so often is expected to go on."""
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
    output_at_ms: int = 0
    """When it last showed more than that it uses a processor."""
    outputs: int = 0
    """How often it did, up to `OUTPUTS_MIN`."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Tasks that hang: those to blame, or none where all are alike."""

    blamed: tuple[TaskId, ...]
    for_ms: int
    reason: str
    """Why they are blamed, as the rest of a sentence about them."""
    spins: bool = False
    """Whether its tasks use processors."""


def watched(before: Activity | None, sign: Sign) -> Activity:
    """Return the activity of a task after a sign of it; one that is new counts as active."""
    stopped_at_ms = before.stopped_at_ms if before is not None else None
    stopped_at_ms = (sign.at_ms if stopped_at_ms is None else stopped_at_ms) if sign.is_stopped else None
    if before is None:
        return Activity(sign, sign.at_ms, stopped_at_ms, sign.at_ms)
    if _says_something(before.last, sign):
        before = replace(before, output_at_ms=sign.at_ms, outputs=min(before.outputs + 1, OUTPUTS_MIN))
    active_at_ms = sign.at_ms if _is_active(before.last, sign) else before.active_at_ms
    return replace(before, last=sign, stopped_at_ms=stopped_at_ms, active_at_ms=active_at_ms)


def may_spin(tasks: Mapping[TaskId, Activity], timeout_ms: int) -> bool:
    """Return whether the tasks of a job that wrote or reported regularly only use processors now."""
    if len(tasks) < 2 or not any(task.outputs >= OUTPUTS_MIN for task in tasks.values()):
        return False
    return min(task.last.at_ms for task in tasks.values()) - max(task.output_at_ms for task in tasks.values()) >= (
        timeout_ms
    )


def find_spinning(tasks: Mapping[TaskId, Activity], waiting: Mapping[TaskId, str], ras: str) -> Hang | None:
    """Return which tasks hang of a job that may spin; None if too few of them wait for others.

    `waiting` has the collective operation of each task that was in the same one at every look, and `ras` what NCCL
    reports, empty if nothing.
    """
    for_ms = min(task.last.at_ms for task in tasks.values()) - max(task.output_at_ms for task in tasks.values())
    others = tuple(id_ for id_ in tasks if id_ not in waiting)
    operations = ", ".join(sorted(set(waiting.values()))[:2])
    # One that works meanwhile, as a first rank that evaluates, keeps the others waiting for good reason.
    is_idle = len(others) == 1 and 2 * (tasks[others[0]].last.at_ms - tasks[others[0]].active_at_ms) >= for_ms
    if waiting and is_idle:
        return Hang(others, for_ms, f"all others wait in {operations}, and it does not", spins=True)
    if waiting and not others:
        return Hang((), for_ms, f"all of them wait in {operations}", spins=True)
    return Hang((), for_ms, "NCCL reports what is wrong", spins=True) if ras else None


def find_hang(tasks: Mapping[TaskId, Activity], timeout_ms: int) -> Hang | None:
    """Return which of the running tasks of a job hang; None while one of them may be working.

    They may have been looked at at different times: what counts is for how long all of them are known to be quiet.
    """
    if not tasks:
        return None
    stopped = [id_ for id_, task in tasks.items() if task.stopped_at_ms is not None and _stopped_ms(task) >= timeout_ms]
    if stopped:
        for_ms = max(_stopped_ms(tasks[id_]) for id_ in stopped)
        return Hang(tuple(stopped), for_ms, "its processes are stopped, as by SIGSTOP or a debugger")
    quiet_ms = min(task.last.at_ms for task in tasks.values()) - max(task.active_at_ms for task in tasks.values())
    if quiet_ms < timeout_ms:
        return None
    return Hang(*_blamed(tasks, quiet_ms))


def _stopped_ms(task: Activity) -> int:
    return task.last.at_ms - max(task.stopped_at_ms or 0, task.active_at_ms)


def _blamed(tasks: Mapping[TaskId, Activity], quiet_ms: int) -> tuple[tuple[TaskId, ...], int, str]:
    if len(tasks) == 1:
        return tuple(tasks), quiet_ms, "it is the only task that runs"
    steps = {id_: step for id_, task in tasks.items() if (step := task.last.step) is not None}
    behind = _least(steps)
    if len(steps) == len(tasks) and behind:
        return behind, quiet_ms, f"it is the only one that has not passed step {exact(min(steps.values()))}"
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
    return sign.cpu_s - before.cpu_s > CPU_SHARE * past_s or _says_something(before, sign)


def _says_something(before: Sign, sign: Sign) -> bool:
    return (
        sign.log_bytes != before.log_bytes
        or (sign.step, sign.progress_at_ms) != (before.step, before.progress_at_ms)
        or sign.power_share > POWER_SHARE
        or sign.tensor_percent > TENSOR_PERCENT
    )
