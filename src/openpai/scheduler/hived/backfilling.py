"""Lets gangs pass one that has waited long, if they are surely gone before it could start anyway.

When that could be is tried out on the books: the gangs of its virtual cluster leave in the order in which their time is
up, until there is a place. Gangs without a time limit never leave for this purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.core import Shape, shape_of
from openpai.scheduler.hived.portions import Portions
from openpai.scheduler.hived.queueing import Waiting
from openpai.scheduler.hived.rehearsing import Rehearsal

LEAVES_MAX: Final = 200
"""After so many ends the search stops: the gang cannot start before the last of them."""


SHAPES_MAX: Final = 10_000


@dataclass(slots=True)
class _Shadow:
    gang: str
    freed: int
    at_ms: int | None


class Backfilling:
    """Remembers when the gangs that hold others up could start, until something is freed."""

    def __init__(self) -> None:
        self._shadows: dict[str, _Shadow] = {}
        self._possible: dict[tuple[Shape, ...], bool] = {}
        self._health = -1

    def shadow_ms(
        self, cluster: Cluster, blocker: Waiting, ends: Iterable[tuple[int, Portions]], now_ms: int
    ) -> int | None:
        """Return when a gang could start if everybody ran for as long as they may; None for never."""
        group = blocker.gang.virtual_cluster
        freed = cluster.freed.get(group, 0)
        known = self._shadows.get(group)
        if known is None or (known.gang, known.freed) != (blocker.gang.id, freed):
            at_ms = _first_start(cluster, blocker.portions, sorted(ends, key=lambda end: end[0]), now_ms)
            known = self._shadows[group] = _Shadow(blocker.gang.id, freed, at_ms)
        return known.at_ms

    def is_possible(self, cluster: Cluster, blocker: Waiting, health: int) -> bool:
        """Return whether a gang could start, on the hardware there is now, if its virtual cluster were empty."""
        if health != self._health or len(self._possible) >= SHAPES_MAX:
            self._possible.clear()
            self._health = health
        requests = [portion.request for portion in blocker.portions]
        shape = tuple([shape_of(request) for request in requests])
        if shape not in self._possible:
            with Rehearsal(cluster) as rehearsal:
                for gang in sorted(cluster.gangs_of.get(blocker.gang.virtual_cluster, ())):
                    rehearsal.leave(gang)
                self._possible[shape] = rehearsal.start_all(requests)
        return self._possible[shape]


def _first_start(cluster: Cluster, portions: Portions, ends: list[tuple[int, Portions]], now_ms: int) -> int | None:
    at_ms = None
    with Rehearsal(cluster) as rehearsal:
        for end_ms, leaving in ends[:LEAVES_MAX]:
            at_ms = max(now_ms, end_ms)
            for portion in leaving:
                rehearsal.leave(portion.request.id)
            if rehearsal.start_all([portion.request for portion in portions]):
                return at_ms
    return at_ms if len(ends) > LEAVES_MAX else None
