"""How long gangs ran that finished, by user and by virtual cluster: what guesses about those that still run rest on."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable
from typing import Final

from openpai.scheduler.hived.fairness import Owner

REMEMBERED: Final = 200
"""So many of the latest run times of a user, or of a virtual cluster, are kept."""

ENOUGH: Final = 4
"""Fewer finished gangs than that say nothing about the next."""


class RunTimes:
    """The latest run times of everybody."""

    def __init__(self) -> None:
        self._latest: dict[Owner, deque[int]] = {}
        self._sorted: dict[Owner, list[int]] = {}

    def note(self, owner: Owner, ran_ms: int) -> None:
        """Remember how long a gang ran, for its user and for its virtual cluster."""
        for key in {owner, (owner[0], "")}:
            latest = self._latest.setdefault(key, deque())
            ordered = self._sorted.setdefault(key, [])
            if len(latest) == REMEMBERED:
                ordered.remove(latest.popleft())
            latest.append(ran_ms)
            insort(ordered, ran_ms)

    def quartiles(self, owner: Owner, after_ms: int = 0) -> tuple[int, int, str] | None:
        """Return the quartiles of run times longer than `after_ms`, and whose they are; None if there are too few."""
        for key, whose in ((owner, f"{owner[1]}'s"), ((owner[0], ""), f"virtual cluster {owner[0]}'s")):
            ordered = self._sorted.get(key, [])
            first = bisect_right(ordered, after_ms)
            count = len(ordered) - first
            if count >= ENOUGH:
                return ordered[first + count // 4], ordered[first + count * 3 // 4], whose
        return None

    def dump(self) -> list[list[object]]:
        """Return everything as plain data."""
        return [[*owner, list(latest)] for owner, latest in sorted(self._latest.items())]

    def load(self, rows: Iterable[tuple[str, str, list[int]]]) -> None:
        """Learn what was dumped."""
        for name, user, latest in rows:
            self._latest[name, user] = deque(latest)
            self._sorted[name, user] = sorted(latest)
