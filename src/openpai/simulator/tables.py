"""Prints reports as tables that fit a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.markup import escape
from rich.table import Table

from openpai.simulator.anomaly import WAYS, Anomaly
from openpai.simulator.report import Report, VcReport

NAME_WIDTH: Final = 16
COMPARED_MAX: Final = 8
"""How many columns fit next to each other."""


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="ellipsis", no_wrap=True, max_width=NAME_WIDTH)
    for other in others:
        table.add_column(other, justify="right", no_wrap=True)
    return table


def span(seconds: float) -> str:
    """Return a duration as short text: `42s`, `12m`, `3.4h`, `21d`."""
    for unit_s, unit in ((86400 * 3, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit_s:
            amount = seconds / (86400 if unit == "d" else unit_s)
            return f"{amount:.1f}{unit}" if amount < 9.95 else f"{amount:.0f}{unit}"
    return f"{seconds:.1f}s" if 0 < seconds < 9.95 else f"{seconds:.0f}s"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def report_tables(report: Report) -> list[Table]:
    """Return the tables of one replay."""
    delays = _table(
        f"{report.name}: how long jobs waited ({report.scheduler})",
        "VC", "GPUS", "JOBS", "MEAN", "P50", "P95", "P99", "MAX", "WAITING",
    )  # fmt: skip
    use = _table(
        f"{report.name}: how GPUs were used", "VC", "GPUS", "IN USE", "UTIL", "STRANDED", "PREEMPTED", "LOST GPUh"
    )
    rows = [*report.vcs, report.total]
    for vc in rows:
        is_last = vc is report.total
        delays.add_row(*_delay_row(vc), style="bold" if is_last else None)
        use.add_row(
            escape(vc.name), str(vc.gpus), f"{vc.gpus_used:.0f}", _percent(vc.utilisation), f"{vc.stranded_gpus:.1f}",
            str(vc.preemptions), f"{vc.gpu_hours_lost:.0f}", style="bold" if is_last else None,
        )  # fmt: skip
    return [delays, use]


def _delay_row(vc: VcReport) -> tuple[str, ...]:
    delay = vc.delay_s
    times = [span(seconds) for seconds in (delay.mean, delay.p50, delay.p95, delay.p99, delay.max)]
    return escape(vc.name), str(vc.gpus), str(vc.jobs), *times, f"{vc.waiting:.1f}"


def report_sentences(report: Report) -> list[str]:
    """Return remarks that are not in the tables."""
    total = report.total
    message = (
        f"{total.jobs} jobs over {report.days:.1f} days, replayed in {report.wall_s:.1f} s; "
        f"{report.fragmented_gpus:.1f} GPUs ({_percent(report.fragmentation)}) were free in pieces smaller than "
        f"{report.typical_gpus} while jobs waited."
    )
    sentences = [message]
    found = report.accuracy
    if found.starts:
        within = _percent(found.starts_within / found.starts)
        sentences.append(f"Of the last {found.starts} starts that were estimated, {within} were within the range.")
    if found.runs:
        within = _percent(found.runs_within_2x / found.runs)
        error = f"in the median they were off by {found.run_error:.1f}x"
        sentences.append(f"Of the last {found.runs} run times, {within} were guessed within a factor of 2; {error}.")
    if total.moves:
        sentences.append(f"{total.moves} jobs were moved to make whole nodes, and repeat {_hours(total)} of work.")
    if total.never_started:
        sentences.append(f"{total.never_started} jobs never started.")
    if total.refused:
        reason, count = next(iter(report.refusals.items()))
        jobs = "1 job" if total.refused == 1 else f"{total.refused} jobs"
        sentences.append(f"{jobs} can never run here; the commonest reason ({count}): {reason}")
    return [*sentences, *report.notes]


def _hours(vc: VcReport) -> str:
    return f"{vc.gpu_hours_moved:g} GPU hours"


def comparison_tables(reports: Sequence[Report]) -> list[Table]:
    """Return the replays side by side, in all and by virtual cluster."""
    whole = _table("Side by side", "", "MEAN", "P95", "P99", "UTIL", "FRAGM.", "STRANDED", "PREEMPT.", "LOST GPUh")
    for number, report in enumerate(reports, 1):
        total, delay = report.total, report.total.delay_s
        whole.add_row(
            escape(f"{number}: {report.name}"), span(delay.mean), span(delay.p95), span(delay.p99),
            _percent(total.utilisation), _percent(report.fragmentation), f"{total.stranded_gpus:.1f}",
            str(total.preemptions), f"{total.gpu_hours_lost:.0f}",
        )  # fmt: skip
    tables = [whole]
    for first in range(0, len(reports), COMPARED_MAX):
        some = reports[first : first + COMPARED_MAX]
        by_vc = _table("Mean wait", "VC", *[f"{first + at}:" for at in range(1, len(some) + 1)])
        for name in dict.fromkeys(vc.name for report in some for vc in report.vcs):
            found = [{vc.name: vc for vc in report.vcs}.get(name) for report in some]
            by_vc.add_row(escape(name), *["-" if vc is None else span(vc.delay_s.mean) for vc in found])
        tables.append(by_vc)
    return tables


def anomaly_table(found: Anomaly) -> Table:
    """Return the mean wait of each virtual cluster in each way; anomalies are red with an exclamation mark."""
    heads = {"private": "PRIVATE", "quota": "QUOTA", "quota-spread": "QUOTA,SPREAD", "hived": "HIVED"}
    table = _table("Mean wait from submission to start", "VC", "GPUS", "JOBS", *[heads[way] for way in WAYS])
    for vc in found.vcs:
        cells = []
        for way in WAYS:
            text = span(vc.delay_s[way].mean)
            is_worse = way != "private" and vc.is_anomaly(way)
            cells.append(f"[red]{text} ![/]" if is_worse else f"{text}  ")
        table.add_row(escape(vc.name), str(vc.gpus), str(vc.jobs), *cells)
    table.add_row(
        "utilisation", str(found.gpus), "", "", *[f"{_percent(found.utilisation[way])}  " for way in WAYS[1:]]
    )
    return table


def anomaly_sentences(found: Anomaly) -> list[str]:
    """Return the findings as sentences."""
    sentences = []
    message = {
        "quota": "With quotas on packed nodes",
        "quota-spread": "With quotas on spread nodes",
        "hived": "Under HiveD",
    }
    for way, where in message.items():
        worse = found.anomalies(way)
        if worse:
            most = max((vc for vc in found.vcs), key=lambda vc: vc.extra_s(way))
            times = most.delay_s[way].mean / max(1.0, most.delay_s["private"].mean)
            sentences.append(
                f"{where}, {', '.join(worse)} waited longer than in a private cluster of the same size: "
                f"{most.name} by {span(most.extra_s(way))} on average ({times:.1f} times as long)."
            )
        else:
            sentences.append(f"{where}, no job waited noticeably longer than in a private cluster of the same size.")
    return sentences
