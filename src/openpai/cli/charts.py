"""Charts in a terminal: columns of blocks with an axis, and one line of them where there are many series."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from openpai.cli.formatting import size, span
from openpai.client.model import MetricChart, MetricSeries
from openpai.protocol.shown_text import shown_line

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
ROWS: Final = 6
LINES_MAX: Final = 20
_AXIS: Final = 10
_LEAST: Final = 20
_FIXED: Final = ("job_name", "username", "virtual_cluster", "job_instance_id")
"""Labels that do not differ between the tasks of a job."""


def lines(chart: MetricChart, width: int, *, shows_all_labels: bool = False) -> Iterator[str]:
    """Yield the lines of a chart that fit a terminal."""
    room = max(_LEAST, width - _AXIS - 2)
    written = unit_of(chart.unit)
    if len(chart.series) == 1:
        yield from _columns(chart, chart.series[0], room, written)
    else:
        yield from _rows(chart, width, written, shows_all_labels)
    yield " " * (_AXIS + 1) + _times(chart, min(room, max(len(one.mean) for one in chart.series)))


def unit_of(unit: str) -> Callable[[float], str]:
    """Return how a value of a unit is written."""
    words: dict[str, Callable[[float], str]] = {
        "bytes": lambda value: size(int(value)),
        "percent": lambda value: f"{value:.3g} %",
        "seconds": lambda value: f"{value:.3g} s",
        "watts": lambda value: f"{value:.4g} W",
        "celsius": lambda value: f"{value:.3g} °C",
    }
    return words.get(unit, lambda value: f"{value:.4g}")


def title(chart: MetricChart) -> str:
    """Return what a chart shows, with its newest, mean and greatest value."""
    known = [value for one in chart.series for value in one.mean if value is not None]
    written = unit_of(chart.unit)
    help_ = chart.help.rstrip(".")
    if len(chart.series) != 1 or not known:
        return f"{help_} ({chart.name})"
    highest = max((value for value in chart.series[0].high if value is not None), default=0.0)
    return f"{help_}: now {written(known[-1])}, mean {written(sum(known) / len(known))}, highest {written(highest)}"


def fitted(values: Sequence[float | None], room: int) -> list[float | None]:
    """Return means of neighbours where there are more values than columns."""
    if len(values) <= room:
        return list(values)
    found: list[float | None] = []
    for column in range(room):
        part = values[column * len(values) // room : (column + 1) * len(values) // room]
        known = [value for value in part if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return found


def _columns(chart: MetricChart, one: MetricSeries, room: int, written: Callable[[float], str]) -> Iterator[str]:
    values = fitted(one.mean, room)
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    levels = [None if value is None else max(1, round(value / top * ROWS * 8)) if value > 0 else 0 for value in values]
    for row in reversed(range(ROWS)):
        label = written(top) if row == ROWS - 1 else written(0) if row == 0 else ""
        cells = "".join(" " if level is None else BLOCKS[min(8, max(0, level - row * 8))] for level in levels)
        yield f"{label:>{_AXIS}}┤{cells.rstrip()}"


def _rows(chart: MetricChart, width: int, written: Callable[[float], str], shows_all: bool) -> Iterator[str]:
    tops = [value for one in chart.series for value in one.mean if value is not None]
    top = max(tops, default=0.0) or 1.0
    names = [_name(one, shows_all) for one in chart.series[:LINES_MAX]]
    # A name that is cut could be that of another series.
    most = min(max(map(len, names), default=0), max(10, width - _LEAST - _AXIS - 3))
    for name, one in zip(names, chart.series, strict=False):
        cells = [_cell(value, top) for value in fitted(one.mean, max(_LEAST, width - most - _AXIS - 3))]
        last = next((value for value in reversed(one.mean) if value is not None), None)
        yield f"{name[:most]:<{most}} {''.join(cells)} {'' if last is None else written(last)}"
    if chart.matched > min(LINES_MAX, len(chart.series)):
        yield f"{chart.matched - min(LINES_MAX, len(chart.series))} more series"


def _cell(value: float | None, top: float) -> str:
    return " " if value is None else BLOCKS[max(1, min(8, round(value / top * 8)))]


def _name(one: MetricSeries, shows_all: bool) -> str:
    labels = {name: str(value) for name, value in one.labels.items() if shows_all or name not in _FIXED}
    role, index = labels.pop("role_name", ""), labels.pop("task_index", "")
    task = [f"{role}-{index}"] if role else []
    rest = [f"GPU {value}" if name == "minor_number" else f"{name}={value}" for name, value in labels.items()]
    return shown_line(" ".join((*task, *rest)) or "all")


def _times(chart: MetricChart, room: int) -> str:
    length_ms = max((len(one.mean) for one in chart.series), default=0) * chart.step_ms
    first = time.strftime("%m-%d %H:%M", time.localtime(chart.start_ms / 1000))
    last = time.strftime("%m-%d %H:%M", time.localtime((chart.start_ms + length_ms) / 1000))
    middle = f" {span(chart.step_ms / 1000)} a point "
    return f"{first}{middle.center(max(len(middle), room - len(first) - len(last)), '─')}{last}"
