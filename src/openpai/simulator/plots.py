"""Draws reports as SVG files, which any browser shows and no library is needed for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from openpai.simulator.report import Report

WIDTH: Final = 860
HEIGHT: Final = 360
LEFT, RIGHT, TOP, BOTTOM = 62, 180, 40, 46
COLOURS: Final = ("#0b6bcb", "#d9480f", "#2b8a3e", "#9c36b5", "#e8a200", "#0c8599", "#c2255c", "#5c5f66")

Points = Sequence[tuple[float, float]]


def line_chart(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """Return an SVG of named lines on a common scale, with both axes from zero."""
    x_max = max((x for points in lines.values() for x, _ in points), default=0) or 1.0
    y_top = _nice(max((y for points in lines.values() for _, y in points), default=0) or 1.0)
    return _drawn(title, x_label, y_label, lines, (_ticks(0, x_max), _ticks(0, y_top)), (x_max, y_top))


def delay_chart(title: str, delays_s: Mapping[str, Sequence[float]]) -> str:
    """Return an SVG of the cumulative distribution of delays, by name, on a logarithmic time axis."""
    lines: dict[str, Points] = {}
    longest = 1.0
    for name, delays in delays_s.items():
        ordered = sorted(delays)
        count = len(ordered)
        at = sorted({round(part * (count - 1) / 200) for part in range(201)}) if count else []
        lines[name] = [(math.log10(1 + ordered[i]), 100 * (i + 1) / count) for i in at]
        longest = max(longest, ordered[-1] if ordered else 0)
    named = ((0, "0"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36000, "10 h"), (360000, "100 h"))
    marks = [(math.log10(1 + seconds), message) for seconds, message in named if seconds <= longest]
    return _drawn(
        title, "waited at most", "% of jobs", lines, (marks, _ticks(0, 100)), (math.log10(1 + longest), 100.0)
    )  # fmt: skip


def _nice(top: float) -> float:
    """Return a round number that is not below `top`."""
    power = 10.0 ** math.floor(math.log10(top))
    return next((step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= top), top)


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = _nice((high - low) / 6)
    count = int((high - low) / step + 1e-9)
    return [(low + at * step, f"{low + at * step:g}") for at in range(count + 1)]


def _drawn(
    title: str,
    x_label: str,
    y_label: str,
    lines: Mapping[str, Points],
    marks: tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]],
    top: tuple[float, float],
) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / top[0] * (right - LEFT), bottom - y / top[1] * (bottom - TOP)

    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="system-ui, sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for value, message in marks[0]:
        x, _ = at(value, 0)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#e9ecef"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#495057">{escape(message)}</text>')
    for value, message in marks[1]:
        _, y = at(0, value)
        out.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e9ecef"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#495057">{escape(message)}</text>')
    out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (TOP + bottom) / 2
    out.append(f'<text transform="rotate(-90 14 {middle})" x="14" y="{middle}" text-anchor="middle">{y_label}</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        y = TOP + 8 + number * 18
        out.append(f'<rect x="{right + 14}" y="{y - 5}" width="14" height="4" fill="{colour}"/>')
        out.append(f'<text x="{right + 34}" y="{y + 1}">{escape(name[:22])}</text>')
    return "\n".join([*out, "</svg>", ""])


def _over_days(report: Report, series: Sequence[float], factor: float = 1.0) -> Points:
    return [((at + 0.5) * report.span_s / 86400, value * factor) for at, value in enumerate(series)]


def write_plots(reports: Sequence[Report], folder: Path) -> list[Path]:
    """Write the plots of some replays into a folder, created if necessary, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    used = {r.name: _over_days(r, r.used_series, 100 / r.total.gpus) for r in reports}
    waiting = {r.name: _over_days(r, r.waiting_series) for r in reports}
    delays = {r.name: [ms / 1000 for found in r.vc_delays_ms.values() for ms in found] for r in reports}
    drawn = {
        "utilisation.svg": line_chart("GPUs in use", "days", "% of all GPUs", used),
        "queue.svg": line_chart("Jobs in the queue", "days", "jobs", waiting),
        "delays.svg": delay_chart("How long jobs waited", delays),
    }
    for number, report in enumerate(reports, 1):
        by_vc = {name: _over_days(report, series) for name, series in report.vc_used_series.items()}
        drawn[f"virtual-clusters-{number}.svg"] = line_chart(
            f"GPUs in use by virtual cluster: {report.name}", "days", "GPUs", by_vc
        )
    written = []
    for name, text in drawn.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
