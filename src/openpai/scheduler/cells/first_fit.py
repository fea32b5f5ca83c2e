"""First fit: which of the places that a gang uses already is the first with room for one more member.

Places are sorted by the room they have left, so that a gang of thousands does not look through all of its nodes again
for each of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FirstFit(Generic[T]):
    """Places in the order of their first use, found by the room they have left. `room` says how much that is."""

    def __init__(self, room: Callable[[T], int]) -> None:
        self._room = room
        self._order: dict[T, int] = {}
        self._by_room: dict[int, list[tuple[int, T]]] = {}

    def use(self, place: T) -> None:
        """Learn that a place was used, for the first time or again: it has less room than before."""
        number = self._order.setdefault(place, len(self._order))
        room = self._room(place)
        if room:
            heappush(self._by_room.setdefault(room, []), (number, place))

    def restart(self, places: Iterable[T]) -> None:
        """Go on with these places, in the order of their use, and forget the others: what was used was taken back."""
        self._order, self._by_room = {}, {}
        for place in dict.fromkeys(places):
            self.use(place)

    def first(self, number: int, may_use: Callable[[T], bool] | None = None) -> T | None:
        """Return the place used first that has room for `number`, of those that may be used."""
        best: tuple[int, T] | None = None
        for room, heap in self._by_room.items():
            if room >= number:
                found = self._first_of(room, heap, may_use)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
        return best[1] if best is not None else None

    def _first_of(
        self, room: int, heap: list[tuple[int, T]], may_use: Callable[[T], bool] | None
    ) -> tuple[int, T] | None:
        # A place that was used again stands in the heap of its new room, too.
        while heap and self._room(heap[0][1]) != room:
            heappop(heap)
        if not heap or may_use is None or may_use(heap[0][1]):
            return heap[0] if heap else None
        allowed = [entry for entry in heap if self._room(entry[1]) == room and may_use(entry[1])]
        return min(allowed, key=lambda entry: entry[0], default=None)
