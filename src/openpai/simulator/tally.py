"""Counts what happens in a replay: which jobs wait, what is in use, what stays free, and what work is lost.

Utilisation, queues and fragmentation are exact integrals over the time between the first and the last submission, or
over the least time the work can take if that is longer; the time in which the cluster drains afterwards counts for
delays only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Final, Protocol

from openpai.scheduler.model import Node
from openpai.simulator.gauges import Gauge
from openpai.simulator.trace import Trace, TraceJob

SPANS: Final = 240
"""Into how many equal spans the time of the trace is divided."""


@dataclass(slots=True)
class VcTally:
    """The counts of one virtual cluster."""

    quota: int
    bucket_ms: InitVar[int]
    used: Gauge = field(init=False)
    """GPUs in use, borrowed ones included."""
    guaranteed: Gauge = field(init=False)
    """GPUs in use by jobs that have a guarantee."""
    waiting: Gauge = field(init=False)
    """Jobs in the queue."""
    stranded: Gauge = field(init=False)
    """Promised GPUs that are free while a job that needs no more of them waits."""
    sizes: Counter[int] = field(default_factory=Counter)
    """Waiting jobs with a guarantee, by number of GPUs."""
    delays_ms: list[tuple[int, int]] = field(default_factory=list)
    """GPUs, and time from submission to first start, of each job that started."""
    completions_ms: list[int] = field(default_factory=list)
    """Time from submission to end of each job that ended."""
    refused: int = 0
    never_started: int = 0
    preemptions: int = 0
    lost_gpu_ms: int = 0
    moves: int = 0
    """Those of the preemptions that moved a job, and the work that these jobs repeat."""
    moved_gpu_ms: int = 0
    done_gpu_ms: int = 0

    def __post_init__(self, bucket_ms: int) -> None:
        """Start all gauges at zero."""
        self.used, self.guaranteed = Gauge(bucket_ms, SPANS), Gauge(bucket_ms, SPANS)
        self.waiting, self.stranded = Gauge(bucket_ms, SPANS), Gauge(bucket_ms, SPANS)

    def settle(self, now_ms: int) -> None:
        """Update how much of the promise is free although a waiting job could use it."""
        left, sizes = self.quota - self.guaranteed.level, self.sizes
        stranded = left if left > 0 and sizes and min(sizes) <= left else 0
        if stranded != self.stranded.level:
            self.stranded.set(stranded, now_ms)


class _Waiting(Protocol):
    @property
    def job(self) -> TraceJob: ...

    @property
    def starts(self) -> int: ...


class Tally:
    """The counts of a whole replay."""

    def __init__(self, trace: Trace, nodes: Sequence[Node], quotas: Mapping[str, int], window_ms: int = 0) -> None:
        self.gpus = sum(node.gpus for node in nodes)
        # If everything is submitted at once, or is too much, the time between submissions says little about use.
        least_ms = sum(trace.demand().values()) // max(1, self.gpus)
        self.window_ms = window_ms or max(1, trace.span_ms, least_ms)
        self.bucket_ms = max(1, -(-self.window_ms // SPANS))
        self.typical_gpus = typical_size(trace, max(node.gpus for node in nodes))
        self.ended_ms = 0
        self.refusals: Counter[str] = Counter()
        self._free = {node.name: node.gpus for node in nodes}
        self.fragmented = Gauge(self.bucket_ms, SPANS)
        """Free GPUs, while jobs wait, on nodes with too few of them free for a task of the typical size."""
        self.scattered = sum(node.gpus for node in nodes if node.gpus < self.typical_gpus)
        self.waiting_jobs = 0
        self.vcs: dict[str, VcTally] = {}
        for name in dict.fromkeys([*quotas, *trace.virtual_clusters]):
            self.vcs[name] = VcTally(quotas.get(name, 0), self.bucket_ms)

    def refuse(self, job: TraceJob, message: str) -> None:
        """Count a job that can never run."""
        self.vcs[job.virtual_cluster].refused += 1
        self.refusals[message] += 1

    def queue(self, job: TraceJob, now_ms: int) -> None:
        """Count a job that waits."""
        vc = self.vcs[job.virtual_cluster]
        vc.waiting.add(1, now_ms)
        self.waiting_jobs += 1
        if job.priority >= 0:
            vc.sizes[job.gpus] += 1
            vc.settle(now_ms)
        self._note_fragments(now_ms)

    def start(self, job: TraceJob, nodes: Iterable[tuple[str, int]], now_ms: int, *, is_first: bool) -> None:
        """Count a job that starts on these numbers of GPUs by node."""
        vc = self.vcs[job.virtual_cluster]
        vc.waiting.add(-1, now_ms)
        self.waiting_jobs -= 1
        vc.used.add(job.gpus, now_ms)
        if is_first:
            vc.delays_ms.append((job.gpus, now_ms - job.submitted_ms))
        if job.priority >= 0:
            vc.guaranteed.add(job.gpus, now_ms)
            if vc.sizes[job.gpus] == 1:
                del vc.sizes[job.gpus]
            else:
                vc.sizes[job.gpus] -= 1
            vc.settle(now_ms)
        self._occupy(nodes, 1)
        self._note_fragments(now_ms)

    def stop(self, job: TraceJob, nodes: Iterable[tuple[str, int]], now_ms: int) -> None:
        """Count a job that has left its GPUs."""
        vc = self.vcs[job.virtual_cluster]
        vc.used.add(-job.gpus, now_ms)
        if job.priority >= 0:
            vc.guaranteed.add(-job.gpus, now_ms)
            vc.settle(now_ms)
        self._occupy(nodes, -1)
        self._note_fragments(now_ms)

    def finish(self, job: TraceJob, now_ms: int) -> None:
        """Count a job that is done."""
        vc = self.vcs[job.virtual_cluster]
        vc.completions_ms.append(now_ms - job.submitted_ms)
        vc.done_gpu_ms += job.gpu_ms

    def preempt(self, job: TraceJob, lost_ms: int, *, is_moved: bool = False) -> None:
        """Count a job that was preempted and must repeat this much work."""
        vc = self.vcs[job.virtual_cluster]
        vc.preemptions += 1
        vc.lost_gpu_ms += lost_ms * job.gpus
        if is_moved:
            vc.moves += 1
            vc.moved_gpu_ms += lost_ms * job.gpus

    def close(self, now_ms: int, waiting: Collection[_Waiting]) -> None:
        """End the replay; these jobs never started."""
        self.ended_ms = now_ms
        for run in waiting:
            if not run.starts:
                self.vcs[run.job.virtual_cluster].never_started += 1

    def _occupy(self, nodes: Iterable[tuple[str, int]], sign: int) -> None:
        typical, free = self.typical_gpus, self._free
        for name, gpus in nodes:
            before = free[name]
            after = free[name] = before - sign * gpus
            self.scattered += (after if after < typical else 0) - (before if before < typical else 0)

    def _note_fragments(self, now_ms: int) -> None:
        fragmented = self.scattered if self.waiting_jobs else 0
        if fragmented != self.fragmented.level:
            self.fragmented.set(fragmented, now_ms)

    def total_series(self, gauge: str) -> list[float]:
        """Return the sum over all virtual clusters of one of their gauges, span by span."""
        found: list[list[float]] = [getattr(vc, gauge).series() for vc in self.vcs.values()]
        return [sum(values) for values in zip(*found, strict=True)]


def typical_size(trace: Trace, node_gpus: int) -> int:
    """Return how many GPUs on one node the median task of the trace needs, weighted by GPU time."""
    times_ms: Counter[tuple[int, ...]] = Counter()
    for job in trace.jobs:
        times_ms[job.sizes(node_gpus)] += job.run_ms
    weights: Counter[int] = Counter()
    for sizes, run_ms in times_ms.items():
        for size in sizes:
            weights[size] += size * run_ms
    half = sum(weights.values()) / 2
    for size in sorted(weights):
        half -= weights[size]
        if half <= 0:
            return size
    return 1
