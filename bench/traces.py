#!/usr/bin/env python3
"""Replays one job trace on one cluster shared in several ways, and prints how long jobs waited in each as one table.

    python -m bench.traces --trace jobs.csv --nodes 64 [--format philly-csv --days 30 --ways 'hived;first-fit' --json]
    python -m bench.traces --trace jobs.csv --nodes 64 --perturb 1
    python -m bench.traces --synthetic jobs=20000,days=14,seed=2 --nodes 64

The nodes are given to the virtual clusters in proportion to the GPU time that they ask for. `private` is what HiveD is
measured against: each virtual cluster alone on its own part. `first-fit` is quotas in numbers of GPUs where whatever
fits starts, the oldest first; with `quota` a job that has waited for half an hour is passed no more. `hived, first-fit`
holds nobody up: the oldest job that fits starts, no cells are kept and no node is left to drain for jobs that wait, so
that large ones are passed for ever and what is stranded is due to the choice of nodes alone. WORST VC is the
largest ratio of a virtual cluster's mean wait to its mean wait in its private cluster under the same policy, a minute
added to both. `--perturb` moves each submission by up to a minute and changes each run time by up to 2 %: what differs
between such copies is chance.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import Any, Final

from openpai.scheduler.config.model import HivedConfig
from openpai.simulator.anomaly import private_config
from openpai.simulator.cluster import generated, quotas_of
from openpai.simulator.formats import read_trace
from openpai.simulator.replay import Rules
from openpai.simulator.report import Report, spread_of
from openpai.simulator.simulate import simulate
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.trace import Trace, in_order, perturbed

HOUR_S: Final = 3600.0
CHECKPOINT_MS: Final = 3_600_000
DAY_MS: Final = 24 * 3_600_000
SIZES: Final = ((1, "1 GPU"), (7, "2-7"), (15, "8-15"), (1 << 40, "16+"))


@dataclass(frozen=True)
class Way:
    """One way of sharing the cluster."""

    name: str
    scheduler: str
    is_private: bool = False
    is_interruptible: bool = False
    """Whether all jobs may borrow, saving their work each hour."""
    moves_jobs: bool = False
    """Whether they are moved to make whole nodes, too."""
    private: str | None = None
    """The way with private clusters under the same policy, where there is one."""


WAYS: Final = (
    Way("private", "hived", is_private=True),
    Way("quota", "quota"),
    Way("first-fit", "first-fit"),
    Way("hived", "hived", private="private"),
    Way("hived, first-fit", "hived-first-fit"),
    Way("hived, borrowing", "hived", is_interruptible=True, private="private"),
    Way("hived, moving", "hived", is_interruptible=True, moves_jobs=True, private="private"),
    Way("private, shortest", "hived-shortest", is_private=True),
    Way("hived, shortest", "hived-shortest", private="private, shortest"),
)


@dataclass
class Row:
    """What one way came to. Waits are in hours."""

    way: str
    jobs: int
    mean_h: float
    p95_h: float
    in_use: float
    stranded_gpus: float
    by_size_h: dict[str, float]
    worst_vc: str
    worst_ratio: float | None
    gpu_hours_lost: float
    preemptions: int
    moves: int
    gpu_hours_moved: float
    replay_cpu_s: float
    vc_mean_h: dict[str, float] = field(repr=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    given = _arguments(arguments)
    config, trace = _inputs(given)
    if given.perturb is not None:
        trace = perturbed(trace, given.perturb)
    gc.collect()
    gc.freeze()
    rules = Rules(checkpoint_ms=None if given.checkpoint_every_s is None else given.checkpoint_every_s * 1000)
    names = given.ways.split(";")
    chosen = [way for way in WAYS if way.name in names]
    rows: dict[str, Row] = {}
    for way in chosen:
        print(f"replaying {len(trace.jobs)} jobs: {way.name} ...", file=sys.stderr)
        rows[way.name] = _row(way, config, trace, rules, rows.get(way.private or ""))
    document = {
        "trace": given.trace or given.synthetic,
        "perturbed": given.perturb,
        "nodes": given.nodes,
        "gpus": sum(quotas_of(config).values()),
        "jobs": len(trace.jobs),
        "days": round(trace.span_ms / DAY_MS, 2),
        "rows": [asdict(row) for row in rows.values()],
    }
    if given.json:
        json.dump(document, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(table(document))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", help="job trace to replay")
    source.add_argument("--synthetic", help="make a trace: jobs=,days=,seed=,load=,apart=,vcs=")
    parser.add_argument("--format", help="ours, philly, philly-csv or helios [default: as it looks]")
    parser.add_argument("--nodes", type=int, default=64, help="nodes of 8 GPUs")
    parser.add_argument("--days", type=float, help="replay only the jobs of the first days")
    parser.add_argument("--perturb", type=int, metavar="SEED", help="replay a copy with times changed a little")
    parser.add_argument("--ways", default=";".join(way.name for way in WAYS), help="ways, with semicolons between")
    parser.add_argument("--checkpoint-every-s", type=int, help="jobs save their work so often [default: never]")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    unknown = set(given.ways.split(";")) - {way.name for way in WAYS}
    if unknown:
        parser.error(f"no way is called {min(unknown)!r}; use {', '.join(way.name for way in WAYS)}")
    return given


def _inputs(given: argparse.Namespace) -> tuple[HivedConfig, Trace]:
    if given.trace is None:
        spec = SyntheticSpec.parse(given.synthetic)
        config = generated(given.nodes, spec.shares())
        return config, generate(spec, quotas_of(config))
    trace = read_trace(Path(given.trace).read_text(encoding="utf-8"), given.format)
    if given.days is not None:
        trace = in_order([job for job in trace.jobs if job.submitted_ms <= given.days * DAY_MS], trace.left_out)
    shares = {name: float(ms) for name, ms in trace.demand().items()}
    return generated(given.nodes, shares), trace


def _row(way: Way, config: HivedConfig, trace: Trace, rules: Rules, private: Row | None) -> Row:
    began = process_time()
    if way.is_private:
        names = [name for name, gpus in quotas_of(config).items() if gpus]
        reports = [_replayed(way, private_config(config, name), trace.of(name), rules, trace.span_ms) for name in names]
    else:
        reports = [_replayed(way, config, trace, rules, trace.span_ms)]
    cpu_s = process_time() - began
    found = [
        (name, delays, report.vc_sizes[name]) for report in reports for name, delays in report.vc_delays_ms.items()
    ]
    everything = spread_of([delay for _, delays, _ in found for delay in delays])
    means = {name: spread_of(delays).mean / HOUR_S for name, delays, _ in found if delays}
    worst = (
        max(((_ratio(mean, private.vc_mean_h.get(name, 0.0)), name) for name, mean in means.items()), default=None)
        if private
        else None
    )
    total = sum(quotas_of(config).values())
    return Row(
        way=way.name,
        jobs=sum(len(delays) for _, delays, _ in found),
        mean_h=round(everything.mean / HOUR_S, 2),
        p95_h=round(everything.p95 / HOUR_S, 2),
        in_use=round(sum(report.total.gpus_used for report in reports) / total, 4),
        stranded_gpus=round(sum(report.total.stranded_gpus for report in reports), 2),
        by_size_h=_by_size(
            (gpus, delay) for _, delays, sizes in found for gpus, delay in zip(sizes, delays, strict=True)
        ),
        worst_vc=worst[1] if worst else "",
        worst_ratio=round(worst[0], 3) if worst else None,
        gpu_hours_lost=round(sum(report.total.gpu_hours_lost for report in reports), 1),
        preemptions=sum(report.total.preemptions for report in reports),
        moves=sum(report.total.moves for report in reports),
        gpu_hours_moved=round(sum(report.total.gpu_hours_moved for report in reports), 1),
        replay_cpu_s=round(cpu_s, 2),
        vc_mean_h={name: round(mean, 2) for name, mean in means.items()},
    )


def _replayed(way: Way, config: HivedConfig, trace: Trace, rules: Rules, window_ms: int) -> Report:
    if way.is_interruptible:
        saves_ms = rules.checkpoint_ms or CHECKPOINT_MS
        rules = replace(rules, is_interruptible=True, checkpoint_ms=saves_ms, moves_jobs=way.moves_jobs)
    return simulate(config, trace, way.name, way.scheduler, rules=rules, window_ms=window_ms)


def _ratio(own_h: float, private_h: float) -> float:
    return (own_h + 1 / 60) / (private_h + 1 / 60)


def _by_size(delays: Iterable[tuple[int, int]]) -> dict[str, float]:
    classes: dict[str, list[int]] = {label: [] for _, label in SIZES}
    for gpus, delay in delays:
        classes[next(label for most, label in SIZES if gpus <= most)].append(delay)
    return {label: round(spread_of(found).mean / HOUR_S, 2) for label, found in classes.items()}


def table(document: dict[str, Any]) -> str:
    """Return the rows as text."""
    heads = [
        "WAY",
        "MEAN WAIT",
        "P95",
        "IN USE",
        "STRANDED",
        *[label for _, label in SIZES],
        "WORST VC",
        "LOST GPUh",
        "MOVES",
        "CPU s",
    ]
    lines = [heads]
    for row in document["rows"]:
        worst = f"{row['worst_vc']} {row['worst_ratio']:.2f}x" if row["worst_ratio"] is not None else "-"
        sizes = [_hours(row["by_size_h"][label]) for _, label in SIZES]
        lines.append(
            [
                row["way"], _hours(row["mean_h"]), _hours(row["p95_h"]), f"{row['in_use']:.1%}",
                f"{row['stranded_gpus']:.1f}", *sizes, worst, f"{row['gpu_hours_lost']:.0f}",
                str(row["moves"]), f"{row['replay_cpu_s']:.1f}",
            ]
        )  # fmt: skip
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    rows = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    where = f"{document['nodes']} nodes ({document['gpus']} GPUs promised)"
    head = f"{document['jobs']} jobs in {document['days']} days on {where}"
    return "\n".join([head, *rows, ""])


def _hours(hours: float) -> str:
    return f"{hours / 24:.2f} d" if hours >= 48 else f"{hours:.1f} h"


if __name__ == "__main__":
    main()
