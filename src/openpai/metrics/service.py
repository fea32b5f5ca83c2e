"""Measures everything every ten seconds while this server leads, and answers what was measured.

`MeasuredMetrics` is `ports.metrics.Metrics`: sources are called in the event loop, one round becomes the newest values,
the history and what rules of alerts are evaluated on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from openpai.ports.clock import Clock
from openpai.ports.metrics import PERIOD_S, Source
from openpai.series.catalogue import METRICS
from openpai.series.labels import NO_LABELS, Matcher
from openpai.series.model import PAUSE, Answer, Query, Reading, Sample
from openpai.series.rounds import Round, Rounds
from openpai.system.pauses import let_others_go_first
from openpai.system.supervision import note_failure

_PERIOD_MS: Final = int(PERIOD_S * 1000)
_AT_ONCE: Final = 100
"""Readings that are taken before other work gets its turn."""


class History(Protocol):
    """Keeps rounds, and returns the past."""

    async def open(self, now_ms: int) -> None:
        """Make it ready."""

    async def close(self) -> None:
        """Finish what is being kept."""

    def keep(self, now: Round) -> None:
        """Keep a round."""

    async def range(self, query: Query, now_ms: int) -> Answer:
        """Return the past of the matching series."""


class MeasuredMetrics:
    """`ports.metrics.Metrics`, over a history."""

    def __init__(
        self, clock: Clock, history: History, rounds: Rounds | None = None, is_asked: Callable[[], bool] = lambda: True
    ) -> None:
        """`is_asked` returns whether this server leads: only then its rounds are kept."""
        self._is_asked = is_asked
        self._keeps = True
        self._clock = clock
        self._history = history
        self._rounds = rounds or Rounds()
        self._sources: dict[str, Source] = {}
        self._takers: list[Callable[[int], None]] = []
        self._spent_s = self._last_spent_s = 0.0

    async def open(self, *, keeps: bool = True) -> None:
        """Open the history, on a server that may lead."""
        self._keeps = keeps
        if keeps:
            await self._history.open(self._clock.now_ms())

    async def close(self) -> None:
        """Close the history."""
        if self._keeps:
            await self._history.close()

    def latest(self, name: str, matchers: Sequence[Matcher] = ()) -> tuple[Sample, ...]:
        return tuple(self._rounds.latest(name, matchers))

    @property
    def newest(self) -> Round:
        """Return the newest round."""
        return self._rounds.newest

    async def range(self, query: Query) -> Answer:
        return await self._history.range(query, self._clock.now_ms())

    def add_source(self, name: str, source: Source) -> None:
        self._sources[name] = source

    def on_round(self, take: Callable[[int], None]) -> None:
        self._takers.append(take)

    async def measure(self) -> Round:
        """Measure everything once."""
        began_s = time.thread_time()
        begun = self._rounds.begin(self._clock.now_ms())
        for number, reading in enumerate(self._readings(), start=1):
            if reading is not PAUSE:
                begun.add(reading)
            if reading is PAUSE or number % _AT_ONCE == 0:
                self._spent_s += time.thread_time() - began_s
                # Thousands of tasks must not delay requests.
                await let_others_go_first()
                began_s = time.thread_time()
        now = self._rounds.end(begun)
        if not self._keeps or not self._is_asked():
            self._spent_s = 0.0
            return now
        self._history.keep(now)
        for take in self._takers:
            try:
                take(now.at_ms)
            except Exception as error:
                note_failure("pass on a round of metrics", error)
        self._last_spent_s, self._spent_s = self._spent_s + time.thread_time() - began_s, 0.0
        return now

    async def measure_forever(self) -> None:
        """Measure at every multiple of ten seconds, until cancelled."""
        try:
            while True:
                due_ms = (self._clock.now_ms() // _PERIOD_MS + 1) * _PERIOD_MS
                # A timer may end a moment early, which would be one more round of the ten seconds before. A clock that
                # was set back is not waited for.
                while 0 < (left_ms := due_ms - self._clock.now_ms()) <= _PERIOD_MS:  # noqa: ASYNC110  # the clock decides
                    await asyncio.sleep(left_ms / 1000)
                await self.measure()
        finally:
            self._rounds.forget()

    def _readings(self) -> Iterator[Reading]:
        for name, source in self._sources.items():
            try:
                for reading in source():
                    if not reading.values.keys() <= METRICS.keys():
                        unknown = reading.values.keys() - METRICS.keys()
                        raise KeyError(f"{', '.join(sorted(unknown))} is not in the catalogue of metrics")
                    yield reading
            except Exception as error:
                note_failure(f"measure {name}", error)
        newest = self._rounds.newest
        yield Reading(
            NO_LABELS,
            {
                "pai_series": float(sum(map(len, newest.values.values()))),
                "pai_series_dropped": float(newest.dropped),
                "pai_metrics_round_seconds": self._last_spent_s,
            },
        )
