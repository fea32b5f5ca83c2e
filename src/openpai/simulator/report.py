"""The report of a replay, per virtual cluster and in all, as plain values for tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import msgspec

from openpai.scheduler.model import Accuracy
from openpai.simulator.tally import Tally, VcTally

HOUR_MS: Final = 3_600_000
SIZE_CLASSES: Final = ((1, "1"), (4, "2-4"), (8, "5-8"), (32, "9-32"), (1 << 40, "33+"))
"""The largest number of GPUs of each size class, and its name."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of times, in seconds."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0


def spread_of(times_ms: Sequence[int]) -> Spread:
    """Return the distribution of times; percentiles are times that occurred."""
    if not times_ms:
        return Spread()
    ordered = sorted(times_ms)

    def at(percent: int) -> float:
        return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] / 1000

    return Spread(round(sum(ordered) / len(ordered) / 1000, 3), at(50), at(95), at(99), ordered[-1] / 1000)


@dataclass(frozen=True, slots=True)
class VcReport:
    """The figures of one virtual cluster, or of all together."""

    name: str
    gpus: int
    """GPUs promised; for all together, the GPUs of the cluster."""
    jobs: int
    refused: int
    """Jobs that could never run in this configuration."""
    never_started: int
    delay_s: Spread
    """From submission to first start."""
    completion_s: Spread
    """From submission to end."""
    gpus_used: float
    """GPUs in use, on average over the days measured."""
    utilisation: float
    """The same as a share of `gpus`; more than 1 for a virtual cluster that borrowed."""
    waiting: float
    """Jobs in the queue, on average."""
    stranded_gpus: float
    """Promised GPUs that were free, on average, while a job that needed no more of them waited."""
    preemptions: int
    gpu_hours_done: float
    gpu_hours_lost: float
    """Work that preempted jobs repeat."""
    moves: int
    """Jobs that were moved to make whole nodes for others; they count as preempted, too."""
    gpu_hours_moved: float
    """The part of the lost work that these jobs repeat."""


@dataclass(frozen=True, slots=True)
class Report:
    """One replay."""

    name: str
    scheduler: str
    total: VcReport
    vcs: tuple[VcReport, ...]
    delay_s_by_gpus: dict[str, Spread]
    """Delays of all jobs by how many GPUs they asked for."""
    typical_gpus: int
    """GPUs on one node that the task in the middle of the trace needs."""
    fragmented_gpus: float
    """Free GPUs, on average while jobs waited, on nodes with fewer than `typical_gpus` of them free."""
    fragmentation: float
    """The same as a share of all GPUs."""
    days: float
    """The time measured: from the first to the last submission, or the least time for the work if that is longer."""
    ended_days: float
    """From the first submission to the end of the last job."""
    span_s: float
    """Length of each step of the series below."""
    used_series: tuple[float, ...]
    """GPUs in use, step by step."""
    waiting_series: tuple[float, ...]
    """Jobs in the queue, step by step."""
    vc_used_series: dict[str, tuple[float, ...]]
    refusals: dict[str, int]
    """Why jobs could never run, and how many; the most frequent reasons."""
    notes: tuple[str, ...]
    accuracy: Accuracy
    """How good the scheduler's guesses of run times and starts were at the end."""
    wall_s: float
    decisions: int
    vc_delays_ms: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Every delay by virtual cluster, in the order of the starts; left out of JSON."""
    vc_sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """How many GPUs the job behind each of these delays has; left out of JSON."""

    @classmethod
    def read(cls, document: Any) -> Report:
        """Return the report that `as_dict` described, without single delays."""
        return msgspec.convert(document, cls)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as data for JSON."""
        found = asdict(self)
        del found["vc_delays_ms"], found["vc_sizes"]
        return found


def report_of(name: str, scheduler: str, tally: Tally, **more: Any) -> Report:
    """Return the report of a finished replay; `more` has the fields that the tally lacks."""
    vcs = [_vc_report(vc_name, vc) for vc_name, vc in tally.vcs.items()]
    fragmented = tally.fragmented.mean()
    by_gpus: dict[int, list[int]] = {}
    for vc in tally.vcs.values():
        for gpus, delay_ms in vc.delays_ms:
            by_gpus.setdefault(gpus, []).append(delay_ms)
    sizes: dict[str, list[int]] = {}
    for gpus, delays_ms in by_gpus.items():
        sizes.setdefault(next(label for most, label in SIZE_CLASSES if gpus <= most), []).extend(delays_ms)
    return Report(
        name=name,
        scheduler=scheduler,
        total=_total(tally, vcs),
        vcs=tuple(vcs),
        delay_s_by_gpus={label: spread_of(sizes[label]) for _, label in SIZE_CLASSES if label in sizes},
        typical_gpus=tally.typical_gpus,
        fragmented_gpus=round(fragmented, 2),
        fragmentation=round(fragmented / tally.gpus, 4),
        days=round(tally.window_ms / HOUR_MS / 24, 3),
        ended_days=round(tally.ended_ms / HOUR_MS / 24, 3),
        span_s=tally.bucket_ms / 1000,
        used_series=_rounded(tally.total_series("used")),
        waiting_series=_rounded(tally.total_series("waiting")),
        vc_used_series={name: _rounded(vc.used.series()) for name, vc in tally.vcs.items()},
        refusals=dict(tally.refusals.most_common(5)),
        vc_delays_ms={name: tuple([delay for _, delay in vc.delays_ms]) for name, vc in tally.vcs.items()},
        vc_sizes={name: tuple([gpus for gpus, _ in vc.delays_ms]) for name, vc in tally.vcs.items()},
        **more,
    )


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple([round(value, 2) for value in values])


def _vc_report(name: str, vc: VcTally) -> VcReport:
    used = vc.used.mean()
    return VcReport(
        name=name,
        gpus=vc.quota,
        jobs=len(vc.delays_ms) + vc.refused + vc.never_started,
        refused=vc.refused,
        never_started=vc.never_started,
        delay_s=spread_of([delay for _, delay in vc.delays_ms]),
        completion_s=spread_of(vc.completions_ms),
        gpus_used=round(used, 2),
        utilisation=round(used / vc.quota, 4) if vc.quota else 0.0,
        waiting=round(vc.waiting.mean(), 2),
        stranded_gpus=round(vc.stranded.mean(), 2),
        preemptions=vc.preemptions,
        gpu_hours_done=round(vc.done_gpu_ms / HOUR_MS, 1),
        gpu_hours_lost=round(vc.lost_gpu_ms / HOUR_MS, 1),
        moves=vc.moves,
        gpu_hours_moved=round(vc.moved_gpu_ms / HOUR_MS, 1),
    )


def _total(tally: Tally, vcs: Sequence[VcReport]) -> VcReport:
    used = sum(vc.gpus_used for vc in vcs)
    return VcReport(
        name="all",
        gpus=tally.gpus,
        jobs=sum(vc.jobs for vc in vcs),
        refused=sum(vc.refused for vc in vcs),
        never_started=sum(vc.never_started for vc in vcs),
        delay_s=spread_of([delay for vc in tally.vcs.values() for _, delay in vc.delays_ms]),
        completion_s=spread_of([took for vc in tally.vcs.values() for took in vc.completions_ms]),
        gpus_used=round(used, 2),
        utilisation=round(used / tally.gpus, 4),
        waiting=round(sum(vc.waiting for vc in vcs), 2),
        stranded_gpus=round(sum(vc.stranded_gpus for vc in vcs), 2),
        preemptions=sum(vc.preemptions for vc in vcs),
        gpu_hours_done=round(sum(vc.gpu_hours_done for vc in vcs), 1),
        gpu_hours_lost=round(sum(vc.gpu_hours_lost for vc in vcs), 1),
        moves=sum(vc.moves for vc in vcs),
        gpu_hours_moved=round(sum(vc.gpu_hours_moved for vc in vcs), 1),
    )
