"""The resolutions that are kept, how a finer becomes a coarser one, and which one a chart is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from openpai.series.model import MISSING

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
STEPS_MS: Final = tuple(
    1000 * seconds
    for seconds in (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800)
)
"""Distances of points that charts may have: each a multiple of the tier that it is made of."""
POINTS_MAX: Final = 2_000
"""The points of one series in an answer."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A resolution that is kept for some time."""

    name: str
    step_ms: int
    kept_ms: int
    """How long its values are kept."""


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers, from the finest to the coarsest."""

    fine: Tier = field(default=Tier("10s", 10_000, 7 * DAY_MS))
    middle: Tier = field(default=Tier("5m", 5 * MINUTE_MS, 90 * DAY_MS))
    coarse: Tier = field(default=Tier("1h", HOUR_MS, 730 * DAY_MS))

    def all(self) -> tuple[Tier, ...]:
        """Return the tiers, from the finest to the coarsest."""
        return self.fine, self.middle, self.coarse


class Points(NamedTuple):
    """Values on a grid of time: the mean, the least and the greatest of each step; NaN for none."""

    mean: list[float]
    low: list[float]
    high: list[float]


def chart_step_ms(start_ms: int, end_ms: int, points: int, least_ms: int = 0) -> int:
    """Return the least step with which a span has at most so many points."""
    span_ms = max(1, end_ms - start_ms)
    for step_ms in STEPS_MS:
        if step_ms >= least_ms and span_ms <= step_ms * points:
            return step_ms
    return max(-(-span_ms // points), least_ms)


def coarser(values: Sequence[float], count: int) -> Points:
    """Return the mean, least and greatest of every `count` values."""
    found = Points([], [], [])
    for place in range(0, len(values), count):
        part = [value for value in values[place : place + count] if value == value]
        found.mean.append(sum(part) / len(part) if part else MISSING)
        found.low.append(min(part, default=MISSING))
        found.high.append(max(part, default=MISSING))
    return found


def coarser_points(points: Points, count: int) -> Points:
    """Return the same for values that have a least and a greatest already."""
    return Points(coarser(points.mean, count).mean, coarser(points.low, count).low, coarser(points.high, count).high)


class Grid:
    """The points of one series in an answer, gathered from blocks of any tier."""

    def __init__(self, start_ms: int, end_ms: int, step_ms: int) -> None:
        self.start_ms = start_ms // step_ms * step_ms
        self.step_ms = step_ms
        self.length = max(1, -(-(end_ms - self.start_ms) // step_ms))
        self._sum = [0.0] * self.length
        self._count = [0] * self.length
        self._low = [MISSING] * self.length
        self._high = [MISSING] * self.length

    def add(self, start_ms: int, step_ms: int, points: Points, span_ms: tuple[int, int]) -> None:
        """Add values that are `step_ms` apart, those of times in `span_ms` only."""
        first = max(0, -(-(span_ms[0] - start_ms) // step_ms))
        last = min(len(points.mean), -(-(span_ms[1] - start_ms) // step_ms))
        at_ms = start_ms + first * step_ms - self.start_ms
        for place in range(first, last):
            mean = points.mean[place]
            if mean == mean:
                slot = at_ms // self.step_ms
                if 0 <= slot < self.length:
                    self._sum[slot] += mean
                    self._count[slot] += 1
                    # A comparison with NaN is false.
                    if not self._low[slot] <= points.low[place]:
                        self._low[slot] = points.low[place]
                    if not self._high[slot] >= points.high[place]:
                        self._high[slot] = points.high[place]
            at_ms += step_ms

    def points(self) -> Points:
        """Return what was gathered."""
        mean = [total / count if count else MISSING for total, count in zip(self._sum, self._count, strict=True)]
        return Points(mean, self._low, self._high)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was gathered."""
        return not any(self._count)
