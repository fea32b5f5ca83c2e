"""`pai job efficiency`: what a job asked for and what it used, with advice; `pai job show` ends with both in short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from openpai.cli import output, session
from openpai.cli.formatting import plural, span
from openpai.cli.job import Name
from openpai.protocol.errors import Refused, Unavailable
from openpai.protocol.wording import amount, memory

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import JobDetail, JobEfficiency, ResourceEfficiency, RoleEfficiency

NONE: Final = "-"
HEADS: Final = ("ROLE", "RESOURCE", "ASKED", "MEAN", "MOST", "USED")


def efficiency(name: Name, json: output.Json = False) -> None:
    """Show how much of what it asked for a job used, and what to ask for instead.

    ASKED, MEAN and MOST are of one task, or of one GPU. USED is the mean of processors and GPUs, and the greatest use
    of memory. Of a running job it is what it used so far.
    """
    with session.connect() as pai:
        found = pai.job_efficiency(name)
    if output.as_json(json, found.document):
        return
    if not found.measured_s:
        output.say(f"Nothing was measured of {name}; running tasks are measured every ten seconds.")
        output.next_step(f"pai job show {name}")
        return
    output.table(HEADS, [row for role in found.roles for row in _rows(role)], right=HEADS[2:])
    so_far = "" if found.is_over else " so far"
    output.say_marked_up(f"[dim]measured for {span(found.measured_s)}{so_far}{_unmeasured(found)}[/]")
    for line in advice_lines(found):
        output.say(line)
    if found.no_advice:
        output.say(f"no advice: {found.no_advice}")
    output.next_step(f"pai job metrics {name}")


def use_of(pai: Client, job: JobDetail, name: str) -> tuple[str, ...]:
    """Return what a job that has ended used of what it asked for, with advice; nothing where that cannot be had."""
    if not job.is_final:
        return ()
    try:
        found = pai.job_efficiency(name)
    except (Refused, Unavailable):
        return ()
    if not found.measured_s:
        return ()
    prefix = len(found.roles) > 1
    used = [f"{role.name}: {text}" if prefix else text for role in found.roles if (text := _shares(role))]
    return (*used, *(advice_lines(found) or [f"no advice: {found.no_advice}"] * bool(found.no_advice)))


def _shares(role: RoleEfficiency) -> str:
    """Return the used part of each resource in a line; empty where nothing was measured."""
    parts = [("CPUs", role.cpu), ("memory", role.memory_bytes)]
    parts += [("GPUs", role.gpu_percent), ("GPU memory", role.gpu_memory_percent)] if role.gpus else []
    shown = [f"{used.share:.0%} of its {name}" for name, used in parts if used.share is not None]
    return f"used {', '.join(shown)}" if shown else ""


def advice_lines(found: JobEfficiency) -> tuple[str, ...]:
    """Return the advice, each with its task role if there are several."""
    prefix = len(found.roles) > 1
    return tuple(f"{role.name}: {text}" if prefix else text for role in found.roles for text in role.advice)


def _rows(role: RoleEfficiency) -> Iterator[tuple[str, ...]]:
    yield role.name, "CPUs", *_cells(role.cpu, amount)
    yield role.name, "memory", *_cells(role.memory_bytes, lambda bytes_: memory(round(bytes_ / 2**20)))
    if role.gpus:
        for resource, used in (("GPU activity", role.gpu_percent), ("GPU memory", role.gpu_memory_percent)):
            requested, *others = _cells(used, lambda percent: f"{percent:.0f}%")
            yield role.name, resource, plural(role.gpus, "GPU") if requested else NONE, *others


def _cells(used: ResourceEfficiency, shown: Callable[[float], str]) -> tuple[str, str, str, str]:
    mean, most = (NONE if value is None else shown(value) for value in (used.mean, used.most))
    return shown(used.asked), mean, most, NONE if used.share is None else f"{used.share:.0%}"


def _unmeasured(found: JobEfficiency) -> str:
    tasks, measured = sum(role.tasks for role in found.roles), sum(role.tasks_measured for role in found.roles)
    some = "" if measured >= tasks else f"; {measured} of {plural(tasks, 'task')}"
    gpus = any(role.gpus and role.gpu_percent.mean is None for role in found.roles)
    return some + ("; GPUs were not measured" if gpus else "")
