"""Who goes before a waiting gang: counted by line, so that a queue of thousands is not looked through gang by gang."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from openpai.scheduler.cells.model import Code
from openpai.scheduler.queue.lanes import Waiting
from openpai.scheduler.queue.state import SchedulerState


class Ahead:
    """The gangs of its virtual cluster that go before a gang and take something away from it."""

    def __init__(self, state: SchedulerState, waiting: Waiting) -> None:
        self._order_key = state.order_key
        before = state.queue.ahead_of(waiting, state.order_key)
        self._stretches = [stretch for stretch in before if not _is_out(state, stretch.first, waiting)]

    def __len__(self) -> int:
        return sum(stretch.gangs for stretch in self._stretches)

    def devices(self) -> int:
        """Return how many devices all of them ask for."""
        return sum(stretch.gangs * stretch.first.devices for stretch in self._stretches)

    def nearest_first(self) -> Iterator[Waiting]:
        """Yield them, first the one right before the gang."""
        return merge(*(stretch.nearest_first() for stretch in self._stretches), key=self._order_key, reverse=True)


def _is_out(state: SchedulerState, other: Waiting, waiting: Waiting) -> bool:
    """Return whether a gang takes nothing away: it never fits, or a limit that is not shared keeps it back."""
    answer = state.queue.lane_of(other.gang.id).answer
    if answer is not None and answer.code is Code.TOO_LARGE:
        return True
    limits = state.running.limits
    is_shared = limits.ever_fits(other.gang) and other.gang.user == waiting.gang.user
    return limits.keeping_back(other.gang) is not None and not is_shared
