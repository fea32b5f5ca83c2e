"""Measured values: their sources, the newest of them, and their past.

`Metrics` is what everything else reads: the API, charts, and rules of alerts. The server that leads measures the whole
platform every `PERIOD_S` seconds and keeps the past in a file of its own; other servers ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from openpai.series.labels import Matcher
from openpai.series.model import Answer, Query, Reading, Sample
from openpai.series.rounds import Round

PERIOD_S: Final = 10.0
"""How often everything is measured."""
Source = Callable[[], Iterable[Reading]]
"""Returns what is measured now, without waiting; called once per round in the event loop.

Each name of a value is in the catalogue, `openpai.series.catalogue`. A series that a source returns no more ends.
A source that looks at thousands of things yields `PAUSE` between them.
"""


class Metrics(Protocol):
    """What was measured, on the server that leads."""

    def latest(self, name: str, matchers: Sequence[Matcher] = ()) -> tuple[Sample, ...]:
        """Return the value of each matching series in the newest round; nothing on a server that does not lead.

        The value of a counter is its rate per second since the round before.
        """
        ...

    @property
    def newest(self) -> Round:
        """Return the newest round of this server: what it measures itself, and the platform where it leads."""
        ...

    async def range(self, query: Query) -> Answer:
        """Return the past of the matching series, from the embedded store or from Prometheus.

        The points lie on multiples of the step since 1970. Values have at least three significant digits.
        """
        ...

    def add_source(self, name: str, source: Source) -> None:
        """Have a source called in every round; an error in it is logged, and costs only its own values."""
        ...

    def on_round(self, take: Callable[[int], None]) -> None:
        """Have `take` called with the time in ms after every round, as to evaluate rules; it must return at once."""
        ...
