"""`pai job top`: what the running tasks of a job use, as a table that is drawn again every few seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import output, session
from openpai.cli.formatting import size
from openpai.cli.job import Name
from openpai.cli.listing import shown
from openpai.cli.options import option

if TYPE_CHECKING:
    from rich.table import Table

    from openpai.client import Client
    from openpai.client.model import TaskUse

EVERY_S: Final = 2.0
BAR: Final = 8
UNLIMITED: Final = 1000
"""Columns of text that is no terminal's."""
NONE: Final = "-"


def top(
    name: Name,
    once: Annotated[bool, option("--once", "Print the table once, also on a terminal.")] = False,
    json: output.Json = False,
) -> None:
    """Show what the running tasks of a job use: processors, memory, disks, network and GPUs.

    On a terminal the table is drawn again every two seconds, until Ctrl-C or the end of the job. The platform measures
    every five seconds. Columns that no task has a value for are left out, and those that do not fit the terminal, from
    the right.
    """
    with session.connect() as pai:
        console = output.console()
        if json or once or not console.is_terminal:
            tasks = pai.task_use(name)
            if not output.is_shown(json, {"tasks": [task.document for task in tasks]}, tasks, _none(pai, name)):
                is_bounded = console.is_terminal or "COLUMNS" in os.environ
                output.say(table(tasks, max(console.width, output.TABLE_WIDTH) if is_bounded else UNLIMITED))
            return
        _live(pai, name)


def _live(pai: Client, name: str) -> None:
    from rich.live import Live
    from rich.text import Text

    console = output.console()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            tasks = pai.task_use(name)
            is_over = not tasks and pai.job(name).is_final
            if is_over:
                break
            # As many tasks as the terminal has lines for, the busiest first.
            room = max(1, console.height - 4)
            chosen = tasks if len(tasks) <= room else sorted(tasks, key=lambda task: -(task.cpus or 0))[:room]
            shown_ = table(chosen, console.width) if tasks else Text(_none(pai, name))
            if len(chosen) < len(tasks) and not isinstance(shown_, Text):
                shown_.caption = f"the busiest {len(chosen)} of {len(tasks)} tasks"
            live.update(shown_, refresh=True)
            time.sleep(EVERY_S)
    output.say(f"{shown(name)} is over.")


def _none(pai: Client, name: str) -> str:
    job = pai.job(name)
    if job.state == "RUNNING":
        return f"No task of {name} has been measured yet; tasks are measured every five seconds."
    return f"No task of {name} runs: the job is {job.state}."


Column = tuple[str, Callable[["TaskUse"], str]]


def table(tasks: Sequence[TaskUse], width: int) -> Table:
    """Return the table with the columns that have values and fit."""
    from rich import box
    from rich.table import Table

    columns = [(heading, [cell(task) for task in tasks]) for heading, cell in COLUMNS]
    kept = [
        (heading, cells)
        for number, (heading, cells) in enumerate(columns)
        if not number or any(cell != NONE for cell in cells)
    ]
    while len(kept) > 2 and _width(kept) > width:
        kept.pop()
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, (heading, _) in enumerate(kept):
        found.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in zip(*(cells for _, cells in kept), strict=True):
        found.add_row(*row)
    return found


def _width(columns: Sequence[tuple[str, Sequence[str]]]) -> int:
    from rich.cells import cell_len

    return sum(max(map(cell_len, (heading, *cells))) + 2 for heading, cells in columns)


def bar(share: float) -> str:
    """Return a share as a bar of blocks."""
    filled = min(BAR, max(0, round(share * BAR)))
    return "█" * filled + "░" * (BAR - filled)


def _cpus(task: TaskUse) -> str:
    if task.cpus is None:
        return "..."
    return f"{bar(task.cpus / max(1, task.cpus_requested))} {task.cpus:.1f}/{task.cpus_requested}"


def _memory(task: TaskUse) -> str:
    used, requested = task.memory_bytes, task.memory_requested_bytes
    return f"{bar(used / max(1, requested))} {size(used)}/{size(requested)}"


def _pair(first: float | None, second: float | None) -> str:
    return NONE if first is None or second is None else f"{size(int(first))} {size(int(second))}"


def _gpu_memory(task: TaskUse) -> str:
    used = [gpu.memory_bytes for gpu in task.gpus if gpu.memory_bytes is not None]
    all_ = [gpu.memory_total_bytes for gpu in task.gpus if gpu.memory_total_bytes is not None]
    return f"{size(int(sum(used)))}/{size(int(sum(all_)))}" if used else NONE


def _power(task: TaskUse) -> str:
    used = [gpu.power_w for gpu in task.gpus if gpu.power_w is not None]
    return f"{sum(used):.0f} W" if used else NONE


def _temperature(task: TaskUse) -> str:
    return f"{max(found):.0f} °C" if (found := [gpu.temperature_c for gpu in task.gpus if gpu.temperature_c]) else NONE


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{bar(sum(known) / len(known) / 100)} {sum(known) / len(known):.0f} %" if known else NONE


COLUMNS: Final[tuple[Column, ...]] = (
    ("task", lambda task: shown(task.name)),
    ("cpus", _cpus),
    ("memory", _memory),
    ("GPU busy", lambda task: _mean([gpu.busy_percent for gpu in task.gpus])),
    ("GPU memory", _gpu_memory),
    ("power", _power),
    ("tensor", lambda task: _mean([gpu.tensor_percent for gpu in task.gpus])),
    ("hottest", _temperature),
    ("progress", lambda task: NONE if task.progress is None else task.progress.text()),
    ("disk read/written per s", lambda task: _pair(task.disk_read_per_s, task.disk_written_per_s)),
    ("network in/out per s", lambda task: _pair(task.network_received_per_s, task.network_sent_per_s)),
    ("processes", lambda task: f"{task.processes} ({task.stopped} stopped)" if task.stopped else str(task.processes)),
)
