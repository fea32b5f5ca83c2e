"""Packing members of several sizes into places of several sizes: how many nodes they need, and whether they fit at all.

The exact answer takes long in the worst case, so the search has a limit; small clusters stay far below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

STEPS_MAX: Final = 20_000


def nodes_needed(sizes: Sequence[int], leaves: int) -> int:
    """Return how many whole nodes members of these sizes fill, largest first, each into the first node with room."""
    left: list[int] = []
    whole = 0
    # Members of one size one after the other: a gang may have thousands, and nodes that are full stay full.
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
    """Return a place for each size (largest first), or None if there is no way or it takes too long to tell."""
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

    # Members beyond this would not only take long but outgrow the interpreter's stack.
    if len(sizes) > 200 or sum(sizes) > sum(left):
        return None
    return chosen if go(0) else None
