"""Generates job traces like those of large shared training clusters, the same for the same seed.

Most jobs need one GPU and few need many; most run for minutes and a few for weeks; users work by day and rest at the
weekend, and often submit several similar jobs at once. Run times are scaled so that each virtual cluster asks for a
chosen share of its promise: some for little, some for more than they have.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, Final

from openpai.protocol.errors import InvalidParameters
from openpai.simulator.trace import Trace, TraceJob, in_order

SIZES: Final = ((1, 0.62), (2, 0.11), (4, 0.095), (8, 0.115), (16, 0.034), (32, 0.018), (64, 0.008))
"""Numbers of GPUs of a job, each with its share of the jobs."""
RUN_MEDIAN_MIN: Final = 25.0
RUN_SIGMA: Final = 1.9
"""Spread of the logarithm of run times: the mean is about six times the median."""
RUN_MAX_DAYS: Final = 14.0
LOAD_SPREAD: Final = 0.25
"""How much virtual clusters differ in the load they put on their promise."""
ALIKE: Final = 0.35
"""The probability that a submission is followed by a similar one within minutes."""
SHARES: Final = (0.22, 0.16, 0.13, 0.11, 0.09, 0.08, 0.07, 0.05, 0.04, 0.03, 0.02)
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class SyntheticSpec:
    """The parameters of a trace."""

    jobs: int = 10_000
    days: float = 14.0
    seed: int = 1
    load: float = 0.75
    """GPU time asked for, as a share of all that was promised."""
    opportunistic: float = 0.0
    """Share of the jobs that have no guarantee."""
    apart: float = 0.0
    """How much virtual clusters differ in the size of their jobs: at 3 one in three has only large jobs."""
    vcs: int = 11
    """Virtual clusters, where no configuration names them."""

    @classmethod
    def parse(cls, text: str) -> SyntheticSpec:
        """Return the parameters in a text such as `jobs=1000,days=7`; the others have their defaults."""
        plain = cls()
        kinds = {field.name: type(getattr(plain, field.name)) for field in fields(cls)}
        found: dict[str, Any] = {}
        for piece in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = piece.partition("=")
            try:
                found[name] = kinds[name](value)
            except (KeyError, ValueError):
                message = f"--synthetic has no parameter {piece!r}"
                raise InvalidParameters(message, f"use {', '.join(f'{n}=...' for n in kinds)}") from None
        made = replace(plain, **found)
        within = {"jobs": made.jobs, "days": made.days, "load": made.load, "vcs": made.vcs, "1 + apart": 1 + made.apart}
        for name, number in within.items():
            if not 0 < number < math.inf:
                raise InvalidParameters(f"--synthetic: {name} must be more than 0, not {number}")
        if not 0 <= made.opportunistic <= 1:
            raise InvalidParameters(f"--synthetic: opportunistic is a share between 0 and 1, not {made.opportunistic}")
        return made

    def shares(self) -> dict[str, float]:
        """Return virtual clusters of unequal size, by share of the cluster."""
        shares = SHARES if self.vcs == len(SHARES) else tuple(1 / (at + 1) for at in range(self.vcs))
        return {f"vc{at + 1:02d}": share for at, share in enumerate(shares)}


def generate(spec: SyntheticSpec, quotas: Mapping[str, int]) -> Trace:
    """Return a trace for virtual clusters with these numbers of promised GPUs."""
    dice = random.Random(spec.seed)  # noqa: S311  a trace keeps no secret
    names = [name for name, quota in quotas.items() if quota]
    if not names:
        message = "no virtual cluster of the configuration was promised any GPUs, so none can be given jobs"
        raise InvalidParameters(message, "add virtualCells to its virtual clusters")
    loads = {name: spec.load * (1 + LOAD_SPREAD * dice.uniform(-1, 1)) for name in names}
    bounds = list(accumulate(quotas[name] for name in names))
    mixes = {name: _mix(quotas[name], spec.apart * (1 if at % 3 == 1 else -1)) for at, name in enumerate(names)}
    jobs: list[TraceJob] = []
    while len(jobs) < spec.jobs:
        name = names[bisect(bounds, dice.random() * bounds[-1])]
        at_ms = _moment(dice, spec.days)
        sizes, weights = mixes[name]
        size = sizes[bisect(weights, dice.random() * weights[-1])]
        user = f"{name}-user{int(20 * dice.random() ** 2)}"
        priority = -1 if dice.random() < spec.opportunistic else 0
        while len(jobs) < spec.jobs:
            run_ms = _run_ms(dice, size)
            jobs.append(TraceJob(f"j{len(jobs):06d}", name, at_ms, run_ms, size, user, priority=priority))
            at_ms += int(dice.expovariate(1 / 120_000))
            if dice.random() >= ALIKE:
                break
    return in_order(_scaled(jobs, quotas, loads, spec.days), {})


def _moment(dice: random.Random, days: float) -> int:
    """Return a time within the trace: rarely at night, less at the weekend."""
    while True:
        at_ms = dice.random() * days * DAY_MS
        hour, weekday = at_ms / HOUR_MS % 24, int(at_ms // DAY_MS) % 7
        busy = (1 + 0.7 * math.sin((hour - 9) * math.pi / 12)) / 1.7
        if dice.random() < busy * (0.5 if weekday >= 5 else 1):
            return int(at_ms)


def _mix(quota: int, lean: float) -> tuple[list[int], list[float]]:
    """Return the sizes of the jobs of a virtual cluster, up to half of its promise, and their cumulative weights.

    A positive lean makes large jobs more frequent, a negative one small jobs.
    """
    sizes = [size for size, _ in SIZES if size <= max(1, quota // 2)]
    return sizes, list(accumulate(weight * size**lean for size, weight in SIZES[: len(sizes)]))


def _run_ms(dice: random.Random, size: int) -> int:
    """Return a run time: large jobs run longer."""
    median_min = RUN_MEDIAN_MIN * (1 + math.log2(size) / 2)
    return int(60_000 * median_min * math.exp(RUN_SIGMA * dice.gauss(0, 1)))


def _scaled(jobs: list[TraceJob], quotas: Mapping[str, int], loads: Mapping[str, float], days: float) -> list[TraceJob]:
    """Scale run times so that each virtual cluster has its load and no job runs longer than the maximum."""
    longest_ms = int(min(RUN_MAX_DAYS, days / 4) * DAY_MS)
    factors: dict[str, float] = {}
    for name, load in loads.items():
        own = [job for job in jobs if job.virtual_cluster == name]
        wanted = load * quotas[name] * days * DAY_MS
        factor = 1.0
        # Limiting the longest jobs reduces the load, so the rest is scaled again until the sum is right.
        for _ in range(20):
            sum_ms = sum(job.gpus * min(longest_ms, int(job.run_ms * factor)) for job in own)
            if not sum_ms or abs(sum_ms / wanted - 1) < 0.005:
                break
            factor *= wanted / sum_ms
        factors[name] = factor
    return [
        replace(job, run_ms=max(1000, min(longest_ms, int(job.run_ms * factors[job.virtual_cluster])))) for job in jobs
    ]
