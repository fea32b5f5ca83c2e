"""Readings, samples, and series on a regular grid of time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from openpai.series.labels import NO_LABELS, Labels, Matcher

MISSING: Final = math.nan
"""Stands where nothing was measured."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was measured of one thing at a moment: values by the names of metrics."""

    labels: Labels
    values: Mapping[str, float]


PAUSE: Final = Reading(NO_LABELS, {})
"""What a source yields for nothing but a pause: it has looked at hundreds of things, and goes on with more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest value of a series. That of a counter is its rate per second."""

    name: str
    labels: Labels
    value: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class Query:
    """Which series, and over which span of time."""

    name: str
    matchers: tuple[Matcher, ...]
    start_ms: int
    end_ms: int
    step_ms: int
    """The least distance of points; a coarser one is chosen where the finer values are not kept."""
    series_max: int = 100
    """How many series are returned at most."""
    has_range: bool = True
    """Whether lows and highs are of interest, too; otherwise they may be the means."""


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one series: a point is about the `step_ms` from its time on, and NaN where nothing was measured."""

    name: str
    labels: Labels
    start_ms: int
    step_ms: int
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    def points(self) -> list[tuple[int, float]]:
        """Return times and means, without those of which nothing was measured."""
        times = range(self.start_ms, self.start_ms + self.step_ms * len(self.mean), self.step_ms)
        return [(at_ms, value) for at_ms, value in zip(times, self.mean, strict=True) if not math.isnan(value)]


@dataclass(frozen=True, slots=True)
class Answer:
    """The series that a query found."""

    series: tuple[Series, ...]
    step_ms: int
    matched: int
    """How many series match; more than were asked for are counted only, and very many are not read at all."""
