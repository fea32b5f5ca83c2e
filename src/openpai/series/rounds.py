"""The newest round of measuring: the present value of every series, and rates of counters.

There is a limit on the series of one round, and on those of one job, so that neither a job of 10,000 tasks nor the
names of an enemy fill the memory: what is beyond is dropped and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from openpai.series.catalogue import METRICS
from openpai.series.labels import Labels, Matcher, accepted
from openpai.series.model import Reading, Sample

SERIES_MAX: Final = 50_000
JOB_SERIES_MAX: Final = 4_000
VALUE_MAX: Final = 3e38
"""Greater values, which no sensor measures, would not fit into what is kept."""
JOB: Final = "job_name"
"""The label that names the job of a series, as its owner and name joined by `~`."""


@dataclass(slots=True)
class Round:
    """The values of one moment."""

    at_ms: int = 0
    values: dict[Labels, dict[str, float]] = field(default_factory=dict)
    """Gauges as they are, counters as rates per second."""
    totals: dict[Labels, dict[str, float]] = field(default_factory=dict)
    """Counters as they are."""
    dropped: int = 0
    """Series beyond the limits."""


class Rounds:
    """Makes rounds of readings."""

    def __init__(self, series_max: int = SERIES_MAX, job_series_max: int = JOB_SERIES_MAX) -> None:
        self._series_max = series_max
        self._job_series_max = job_series_max
        self.newest = Round()

    def learn(self, readings: Iterable[Reading], at_ms: int) -> Round:
        """Return the round of these readings, which is the newest from now on."""
        begun = self.begin(at_ms)
        for reading in readings:
            begun.add(reading)
        return self.end(begun)

    def begin(self, at_ms: int) -> BegunRound:
        """Return a round to which readings are added one by one."""
        return BegunRound(self.newest, Round(at_ms), self._series_max, self._job_series_max)

    def end(self, begun: BegunRound) -> Round:
        """Return a round that was begun, which is the newest from now on."""
        self.newest = begun.now
        return begun.now

    def forget(self) -> None:
        """Keep nothing, because another server leads now."""
        self.newest = Round()

    def latest(self, name: str, matchers: Sequence[Matcher] = ()) -> Iterator[Sample]:
        """Yield the newest value of each matching series."""
        for labels, values in self.newest.values.items():
            value = values.get(name)
            if value is not None and accepted(matchers, labels):
                yield Sample(name, labels, value, self.newest.at_ms)


@dataclass(slots=True)
class BegunRound:
    """A round of which not all readings are known yet."""

    before: Round
    now: Round
    series_max: int
    job_series_max: int
    taken: int = 0
    of_job: Counter[str] = field(default_factory=Counter)

    def add(self, reading: Reading) -> None:
        """Add a reading, unless there are too many series, of its job or in all."""
        count, job = len(reading.values), reading.labels.get(JOB)
        if self.taken + count > self.series_max or (job and self.of_job[job] + count > self.job_series_max):
            self.now.dropped += count
            return
        self.taken += count
        if job:
            self.of_job[job] += count
        now, before = self.now, self.before
        values = now.values.setdefault(reading.labels, {})
        for name, value in reading.values.items():
            if not abs(value) <= VALUE_MAX:
                continue
            if METRICS[name].kind == "gauge":
                values[name] = value
                continue
            totals = now.totals.setdefault(reading.labels, {})
            totals[name] = value
            was, past_s = before.totals.get(reading.labels, {}).get(name), (now.at_ms - before.at_ms) / 1000
            # A counter that fell began again at zero.
            if was is not None and past_s > 0:
                values[name] = (value - was if value >= was else value) / past_s


def published(now: Round) -> Iterator[tuple[str, Labels, float]]:
    """Yield the series of a round as others scrape them: gauges as they are, counters as totals."""
    for labels, values in now.values.items():
        for name, value in values.items():
            if METRICS[name].kind == "gauge":
                yield name, labels, value
    for labels, totals in now.totals.items():
        for name, value in totals.items():
            yield name, labels, value
