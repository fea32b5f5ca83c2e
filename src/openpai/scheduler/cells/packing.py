"""Packs tasks of several sizes into places of several sizes: first fit, and an exact search with a limit.

First fit sorts places by the room they have left, so that a gang of thousands does not search all of its nodes for
each task. The exact search takes long in the worst case; small clusters stay far below its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

STEPS_MAX: Final = 20_000

T = TypeVar("T", bound=Hashable)


def nodes_needed(sizes: Sequence[int], leaves: int) -> int:
    """Return how many nodes tasks of these sizes fill, largest first, each on the first node with room."""
    left: list[int] = []
    whole = 0
    # Size by size, because a gang may have thousands of tasks.
    for size, count in sorted(Counter(sizes).items(), reverse=True):
        if size == leaves:
            whole += count
            continue
        waiting = count
        for at, room in enumerate(left):
            taken = min(waiting, room // size)
            left[at] -= taken * size
            waiting -= taken
            if not waiting:
                break
        per_node = max(1, leaves // size)
        while waiting:
            taken = min(waiting, per_node)
            left.append(leaves - taken * size)
            waiting -= taken
    return whole + len(left)


def pack_exactly(sizes: Sequence[int], rooms: Sequence[int]) -> list[int] | None:
    """Return a place for each size (largest first); None if there is no way or the search exceeds its limit."""
    left = list(rooms)
    chosen: list[int] = []
    dead: set[tuple[int, tuple[int, ...]]] = set()
    steps = 0

    def go(at: int) -> bool:
        nonlocal steps
        if at == len(sizes):
            return True
        steps += 1
        state = (at, tuple(sorted(left)))
        if steps > STEPS_MAX or state in dead:
            return False
        tried = set()
        for place in sorted(range(len(left)), key=lambda place: left[place]):
            room = left[place]
            if room < sizes[at] or room in tried:
                continue
            tried.add(room)
            left[place] -= sizes[at]
            chosen.append(place)
            if go(at + 1):
                return True
            chosen.pop()
            left[place] += sizes[at]
        dead.add(state)
        return False

    # More tasks than this would exceed the interpreter's recursion limit.
    if len(sizes) > 200 or sum(sizes) > sum(left):
        return None
    return chosen if go(0) else None


class FirstFit(Generic[T]):
    """Places in the order of their first use, found by the room they have left."""

    def __init__(self, room: Callable[[T], int]) -> None:
        self._room = room
        self._order: dict[T, int] = {}
        self._by_room: dict[int, list[tuple[int, T]]] = {}

    def use(self, place: T) -> None:
        """Add a place, or note that one has less room than before."""
        number = self._order.setdefault(place, len(self._order))
        room = self._room(place)
        if room:
            heappush(self._by_room.setdefault(room, []), (number, place))

    def restart(self, places: Iterable[T]) -> None:
        """Replace all places by these, in the order of their use."""
        self._order, self._by_room = {}, {}
        for place in dict.fromkeys(places):
            self.use(place)

    def first(self, number: int, may_use: Callable[[T], bool] | None = None) -> T | None:
        """Return the first place with room for `number` among those that may be used."""
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
        # A place that was used again is also in the heap of its new room.
        while heap and self._room(heap[0][1]) != room:
            heappop(heap)
        if not heap or may_use is None or may_use(heap[0][1]):
            return heap[0] if heap else None
        allowed = [entry for entry in heap if self._room(entry[1]) == room and may_use(entry[1])]
        return min(allowed, key=lambda entry: entry[0], default=None)
