"""The values of a job trace: who submitted a job when, how many GPUs it needs, and how long it ran once it had them.

Decisions of the original scheduler are left out: a replay makes its own. Times are milliseconds since the trace's first
submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Final

from openpai.protocol.errors import Fault, Refused
from openpai.protocol.wording import plural

PRIORITY_CLASSES: Final[Mapping[str, int]] = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
"""The names OpenPAI's job files use for priorities."""

MOVED_MAX_MS: Final = 60_000
"""How much earlier or later a job of a perturbed trace is submitted at most."""

LENGTHENED_MAX: Final = 0.02
"""By which share it runs longer or shorter at most."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace."""

    id: str
    virtual_cluster: str
    submitted_ms: int
    run_ms: int
    gpus: int
    user: str = ""
    tasks: int | None = None
    """How many equal tasks share the GPUs; None for as few as the size of the nodes allows."""
    priority: int = 0
    sku_type: str | None = None

    @property
    def gpu_ms(self) -> int:
        """Return the GPU time of the job without preemption."""
        return self.gpus * self.run_ms

    def sizes(self, node_gpus: int) -> tuple[int, ...]:
        """Return how many GPUs each task needs on one node, largest first."""
        return _sizes(self.gpus, self.tasks, node_gpus)


@lru_cache(maxsize=10_000)
def _sizes(gpus: int, tasks: int | None, node_gpus: int) -> tuple[int, ...]:
    if tasks is None:
        whole, rest = divmod(gpus, node_gpus)
        return (*[node_gpus] * whole, *([rest] if rest else []))
    each, over = divmod(gpus, tasks)
    return tuple([each + 1] * over + [each] * (tasks - over))


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a trace in the order of their submission, and how many records were left out, by reason."""

    jobs: tuple[TraceJob, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def virtual_clusters(self) -> tuple[str, ...]:
        """Return the virtual clusters by name, those with the most GPU time first."""
        demand = self.demand()
        return tuple(sorted(demand, key=lambda name: (-demand[name], name)))

    @property
    def span_ms(self) -> int:
        """Return the time between the first and the last submission."""
        return self.jobs[-1].submitted_ms - self.jobs[0].submitted_ms if self.jobs else 0

    def demand(self) -> dict[str, int]:
        """Return the GPU milliseconds asked for by virtual cluster."""
        demand: Counter[str] = Counter()
        for job in self.jobs:
            demand[job.virtual_cluster] += job.gpu_ms
        return dict(demand)

    def renamed(self, names: Mapping[str, str]) -> Trace:
        """Return the trace with its virtual clusters renamed."""
        jobs = [replace(job, virtual_cluster=names.get(job.virtual_cluster, job.virtual_cluster)) for job in self.jobs]
        return Trace(tuple(jobs), self.left_out)

    def of(self, virtual_cluster: str) -> Trace:
        """Return the jobs of one virtual cluster alone."""
        return Trace(tuple([job for job in self.jobs if job.virtual_cluster == virtual_cluster]))


def in_order(jobs: Sequence[TraceJob], left_out: Mapping[str, int]) -> Trace:
    """Return a trace of these jobs, sorted by submission, with times relative to the first of them."""
    if not jobs:
        return Trace((), dict(left_out))
    first = min(job.submitted_ms for job in jobs)
    moved = [replace(job, submitted_ms=job.submitted_ms - first) for job in jobs]
    moved.sort(key=lambda job: job.submitted_ms)
    return Trace(tuple(moved), dict(left_out))


def perturbed(trace: Trace, seed: int) -> Trace:
    """Return a copy with each submission moved a little and each run time a little changed; the same for a seed.

    What a policy does with the trace and not with its copies is chance.
    """
    dice = Random(seed)  # noqa: S311  a trace keeps no secret
    jobs = [
        replace(
            job,
            submitted_ms=job.submitted_ms + dice.randint(-MOVED_MAX_MS, MOVED_MAX_MS),
            run_ms=round(job.run_ms * dice.uniform(1 - LENGTHENED_MAX, 1 + LENGTHENED_MAX)),
        )
        for job in trace.jobs
    ]
    return in_order(jobs, trace.left_out)


class InvalidTrace(Refused):
    """A trace cannot be read; all of its faults are in `faults`."""

    faults: tuple[Fault, ...]

    def __init__(self, faults: Sequence[Fault]) -> None:
        count = plural(len(faults), "fault")
        super().__init__(
            "InvalidParametersError",
            f"the trace has {count}:\n" + "\n".join(fault.describe() for fault in faults),
            "correct the lines named above, or name the right format: ours, philly, philly-csv or helios",
        )
        self.faults = tuple(faults)
