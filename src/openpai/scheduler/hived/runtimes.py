"""How long gangs ran that finished: the guesses about those that wait or still run rest on nothing else.

The latest run times are kept for several kinds of gangs at once: jobs of the same name pattern and size, of the same
user and size, of the same user, of the same size, and all of a virtual cluster. A guess takes the narrowest kind of
which enough gangs have finished. Each gang that finishes is compared with what would have been guessed about it, so
that a guess can be told together with how good the guesses are.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from openpai.scheduler.hived.limiting import gpus_of
from openpai.scheduler.model import Gang

REMEMBERED: Final = 200
"""So many of the latest run times are kept of each kind."""

ENOUGH: Final = 4
"""Fewer finished gangs than that say nothing about the next."""

KINDS_MAX: Final = 20_000
"""Of more kinds than that, those of which no gang has finished for longest are forgotten."""

CLOSE: Final = 4
"""A guess was close if the gang ran at most so many times longer or shorter; run times differ a thousandfold."""

_NUMBERS: Final = re.compile(r"[0-9]+|\b[0-9a-f]{6,}\b")


class Kind(NamedTuple):
    """What gangs have in common whose run times are compared. What is None is left open."""

    virtual_cluster: str
    user: str | None = None
    gpus: int | None = None
    name: str | None = None

    def told(self) -> str:
        """Return the words for whose run times these are."""
        size = "" if self.gpus is None else f" with {self.gpus} GPUs" if self.gpus != 1 else " with 1 GPU"
        if self.name is not None:
            return f"jobs called like it{size}"
        if self.user:
            return f"{self.user}'s jobs{size}"
        return f"jobs of virtual cluster {self.virtual_cluster}{size}"


@lru_cache(maxsize=10_000)
def name_pattern(job: str) -> str:
    """Return the name of a job without its user and its numbers, so that `train-17` is like `train-18`."""
    return _NUMBERS.sub("#", job.rsplit("~", maxsplit=1)[-1])


def kinds_of(gang: Gang) -> Iterator[Kind]:
    """Yield the kinds a gang belongs to, narrowest first."""
    name, user, gpus = gang.virtual_cluster, gang.user or None, gpus_of(gang)
    if gang.job:
        yield Kind(name, user, gpus, name_pattern(gang.job))
    if user is not None:
        yield Kind(name, user, gpus)
        yield Kind(name, user)
    yield Kind(name, None, gpus)
    yield Kind(name)


@dataclass(slots=True)
class _Latest:
    """The latest run times of one kind, as they came and sorted."""

    came: deque[int] = field(default_factory=deque)
    ordered: list[int] = field(default_factory=list)

    def note(self, ran_ms: int) -> None:
        if len(self.came) == REMEMBERED:
            del self.ordered[bisect_left(self.ordered, self.came.popleft())]
        self.came.append(ran_ms)
        insort(self.ordered, ran_ms)

    def longer_than(self, after_ms: int) -> tuple[int, int]:
        """Return where those begin that ran longer, and how many they are."""
        first = bisect_right(self.ordered, after_ms)
        return first, len(self.ordered) - first


@dataclass(slots=True)
class Accuracy:
    """How good guesses were."""

    guesses: int = 0
    close: int = 0
    """Where the gang ran at most four times longer or shorter."""
    under: int = 0
    """Where the gang ran longer than the guess of three quarters."""


class RunTimes:
    """The latest run times of every kind of gang."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, _Latest] = {}
        self._longest: dict[str, int] = {}
        self.accuracy: dict[str, Accuracy] = {}
        """By virtual cluster."""

    def note(self, gang: Gang, ran_ms: int) -> None:
        """Remember how long a gang ran that finished, and how good a guess about it would have been."""
        self._compare(gang, ran_ms)
        name = gang.virtual_cluster
        self._longest[name] = max(ran_ms, self._longest.get(name, 0))
        for kind in kinds_of(gang):
            latest = self._kinds.pop(kind, None) or _Latest()
            latest.note(ran_ms)
            self._kinds[kind] = latest
        while len(self._kinds) > KINDS_MAX:
            del self._kinds[next(iter(self._kinds))]

    def _compare(self, gang: Gang, ran_ms: int) -> None:
        found = self._enough(gang, 0)
        if found is None:
            return
        latest, _, count, _ = found
        accuracy = self.accuracy.setdefault(gang.virtual_cluster, Accuracy())
        guess = max(1, latest.ordered[-count + count // 2])
        accuracy.guesses += 1
        accuracy.close += guess <= CLOSE * max(1, ran_ms) and ran_ms <= CLOSE * guess
        accuracy.under += ran_ms > latest.ordered[-count + count * 3 // 4]

    def _enough(self, gang: Gang, after_ms: int) -> tuple[_Latest, int, int, Kind] | None:
        for kind in kinds_of(gang):
            latest = self._kinds.get(kind)
            if latest is not None:
                first, count = latest.longer_than(after_ms)
                if count >= ENOUGH:
                    return latest, first, count, kind
        return None

    def guess(self, gang: Gang, quantile: float, after_ms: int = 0) -> int | None:
        """Return how long a gang runs in all that ran for `after_ms` already; None if too few like it have finished.

        Of those that ran longer than that, the share `quantile` ran no longer than the answer.
        """
        found = self._enough(gang, after_ms)
        if found is None:
            return None
        latest, first, count, _ = found
        return latest.ordered[first + min(count - 1, int(count * quantile))]

    def quartiles(self, gang: Gang, after_ms: int = 0) -> tuple[int, int, str] | None:
        """Return the quartiles of run times longer than `after_ms`, and whose they are; None if there are too few."""
        found = self._enough(gang, after_ms)
        if found is None:
            return None
        latest, first, count, kind = found
        return latest.ordered[first + count // 4], latest.ordered[first + count * 3 // 4], kind.told()

    def of_all(self, virtual_cluster: str) -> tuple[int, int] | None:
        """Return the quartiles of all run times of a virtual cluster, None if there are too few."""
        latest = self._kinds.get(Kind(virtual_cluster))
        if latest is None or len(latest.ordered) < ENOUGH:
            return None
        count = len(latest.ordered)
        return latest.ordered[count // 4], latest.ordered[count * 3 // 4]

    def longest(self, virtual_cluster: str) -> int:
        """Return how long the longest gang ran that ever finished in a virtual cluster."""
        return self._longest.get(virtual_cluster, 0)

    def dump(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "kinds": [[*kind, list(latest.came)] for kind, latest in self._kinds.items()],
            "longest": self._longest,
            "accuracy": {name: [a.guesses, a.close, a.under] for name, a in self.accuracy.items()},
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Learn what was dumped."""
        for *kind, came in data["kinds"]:
            self._kinds[Kind(*kind)] = _Latest(deque(came), sorted(came))
        self._longest = dict(data["longest"])
        self.accuracy = {name: Accuracy(*row) for name, row in data["accuracy"].items()}
