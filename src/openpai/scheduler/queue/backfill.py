"""Remembers which gangs could start at all, on the hardware there is, if their virtual cluster were empty."""

from __future__ import annotations

from typing import Final

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Shape, shape_of
from openpai.scheduler.cells.trial import Trial
from openpai.scheduler.queue.lanes import Waiting

SHAPES_MAX: Final = 10_000


class Backfilling:
    """Knows for whom keeping cells is of use."""

    def __init__(self) -> None:
        self._possible: dict[tuple[Shape, ...], bool] = {}
        self._health = -1

    def is_possible(self, cluster: Cluster, blocker: Waiting, health: int) -> bool:
        """Return whether a gang could start, on the hardware there is now, if its virtual cluster were empty."""
        if health != self._health or len(self._possible) >= SHAPES_MAX:
            self._possible.clear()
            self._health = health
        requests = [part.request for part in blocker.requests]
        shape = tuple([shape_of(request) for request in requests])
        if shape not in self._possible:
            with Trial(cluster) as trial:
                for gang in sorted(cluster.gangs_of.get(blocker.gang.virtual_cluster, ())):
                    trial.leave(gang)
                self._possible[shape] = trial.start_all(requests)
        return self._possible[shape]
