"""Run times of finished gangs, from which those of waiting and running gangs are guessed.

The latest run times are kept for several kinds of gangs: jobs of the same name pattern and size, of the same user and
size, of the same user, of the same size, and all of a virtual cluster. A guess uses the narrowest kind of which enough
gangs have finished. Gangs that finish are compared with the guesses about them, which measures the accuracy.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import Any, Final, NamedTuple, TypeVar

from openpai.scheduler.model import Gang
from openpai.scheduler.queue.accuracy import LATEST, Guesses
from openpai.scheduler.queue.limits import gpus_of

REMEMBERED: Final = 1000
"""The number of latest run times to keep of each kind."""

ENOUGH: Final = 4
"""The least number of finished gangs for a guess."""

KINDS_MAX: Final = 20_000
"""The number of kinds to keep; beyond it, the kind whose last gang finished longest ago is removed."""

NEIGHBOURS: Final = 8
"""A gang is compared with this many submitted directly before and after it: they often belong together."""

NEAR_MS: Final = 60 * 60 * 1000
"""One submitted at the same time counts twice as much as one submitted an hour before or after."""

USUAL: Final = 2
"""The median run time of a kind counts as much as this many gangs submitted at the same time."""

COMPARED: Final = 16
"""Once enough gangs have finished to judge the guesses, one of this many is compared with its guess."""

SORTED_AGAIN: Final = REMEMBERED // 10
"""If more run times than this are new, all of a kind are sorted again."""

T = TypeVar("T", int, tuple[int, int])

_NUMBERS: Final = re.compile(r"[0-9]+|\b[0-9a-f]{6,}\b")


class Kind(NamedTuple):
    """Properties that gangs with comparable run times share; None matches any."""

    virtual_cluster: str
    user: str | None = None
    gpus: int | None = None
    name: str | None = None

    def describe(self) -> str:
        """Return a description of the jobs for users."""
        size = "" if self.gpus is None else f" with {self.gpus} GPUs" if self.gpus != 1 else " with 1 GPU"
        if self.name is not None:
            return f"jobs with a similar name{size}"
        if self.user:
            return f"{self.user}'s jobs{size}"
        return f"jobs of virtual cluster {self.virtual_cluster}{size}"


def name_pattern(job: str) -> str:
    """Return the name of a job without its user and its numbers, so that `train-17` is like `train-18`."""
    return _NUMBERS.sub("#", job.rsplit("~", maxsplit=1)[-1])


def kinds_of(gang: Gang) -> tuple[Kind, ...]:
    """Return the kinds a gang belongs to, narrowest first."""
    return _kinds_of(gang.virtual_cluster, gang.user, gang.job, gpus_of(gang))


@lru_cache(maxsize=KINDS_MAX)
def _kinds_of(name: str, user: str, job: str, gpus: int) -> tuple[Kind, ...]:
    # They are asked for again and again while a gang waits, when it starts, and when it ends.
    return _kinds(name, user or None, gpus, name_pattern(job) if job else None)


@lru_cache(maxsize=KINDS_MAX // 4)
def _kinds(name: str, user: str | None, gpus: int, pattern: str | None) -> tuple[Kind, ...]:
    # The kinds of like jobs are the same objects, which are found sooner than equal ones.
    named = () if pattern is None else (Kind(name, user, gpus, pattern),)
    own = () if user is None else (Kind(name, user, gpus), Kind(name, user))
    return (*named, *own, Kind(name, None, gpus), Kind(name))


@dataclass(slots=True)
class _Latest:
    """The latest run times of one kind, in order of arrival; by length and by time of submission when that is asked.

    Most kinds are asked seldom or never, because a narrower kind answers: they are not sorted with every gang.
    """

    came: deque[tuple[int, int]] = field(default_factory=deque)
    """Time of submission and run time of each gang."""
    running: dict[tuple[int, int], int] = field(default_factory=dict)
    """How many gangs run, by time of submission and start."""
    total_ms: int = 0
    """Sum of the run times."""
    at_once: int = 0
    """How many of them are 0 or less."""
    _ordered: list[int] = field(default_factory=list)
    _submitted: list[tuple[int, int]] = field(default_factory=list)
    in_order: list[tuple[int, int]] | None = None
    """Those that run, sorted, if they were asked for since one of them started or ended."""
    _new: int = 0
    """How many of the latest are not sorted by length yet."""
    _gone: list[int] = field(default_factory=list)
    """Those no longer kept that are still among the sorted ones, unless all are to be sorted again."""
    _new_submitted: int = 0
    """The same for those sorted by time of submission, which are asked for much less often."""
    _gone_submitted: list[tuple[int, int]] = field(default_factory=list)

    def note(self, submitted_ms: int, ran_ms: int) -> None:
        came = self.came
        if len(came) == REMEMBERED:
            oldest = came.popleft()
            self.total_ms += ran_ms - oldest[1]
            if oldest[1] <= 0:
                self.at_once -= 1
            if self._new < SORTED_AGAIN:
                self._gone.append(oldest[1])
            if self._new_submitted < SORTED_AGAIN:
                self._gone_submitted.append(oldest)
        else:
            self.total_ms += ran_ms
        came.append((submitted_ms, ran_ms))
        if ran_ms <= 0:
            self.at_once += 1
        self._new += 1
        self._new_submitted += 1

    @property
    def ordered(self) -> list[int]:
        """Return the run times by length."""
        new, self._new = self._new, 0
        if new > SORTED_AGAIN:
            self._ordered = sorted([ran_ms for _, ran_ms in self.came])
            self._gone.clear()
        elif new:
            _put_in_order(self._ordered, [self.came[at][1] for at in range(-new, 0)], self._gone)
        return self._ordered

    @property
    def submitted(self) -> list[tuple[int, int]]:
        """Return time of submission and run time of each gang, in the order of submission."""
        new, self._new_submitted = self._new_submitted, 0
        if new > SORTED_AGAIN:
            self._submitted = sorted(self.came)
            self._gone_submitted.clear()
        elif new:
            _put_in_order(self._submitted, [self.came[at] for at in range(-new, 0)], self._gone_submitted)
        return self._submitted

    @property
    def running_in_order(self) -> list[tuple[int, int]]:
        """Return time of submission and start of each running gang, in the order of submission."""
        if self.in_order is None:
            self.in_order = sorted([pair for pair, number in self.running.items() for _ in range(number)])
        return self.in_order

    def near(self, submitted_ms: int, now_ms: int) -> int:
        """Return the run time to expect of a gang submitted at that time: a mean of those submitted nearest to it.

        The square roots are averaged, so that one gang that ran for weeks counts, but does not hide many short ones.
        A running gang counts as long as half of those are that ran longer than it did so far.
        """
        ordered = self.ordered
        weights = float(USUAL)
        total = weights * sqrt(ordered[len(ordered) // 2])
        submitted = self.submitted
        at = bisect_left(submitted, (submitted_ms, 0))
        for other_ms, ran_ms in submitted[max(0, at - NEIGHBOURS) : at + NEIGHBOURS]:
            weight = NEAR_MS / (NEAR_MS + abs(other_ms - submitted_ms))
            weights += weight
            total += weight * sqrt(ran_ms)
        running = self.running_in_order
        at = bisect_left(running, (submitted_ms, 0))
        for other_ms, since_ms in running[max(0, at - NEIGHBOURS) : at + NEIGHBOURS]:
            weight = NEAR_MS / (NEAR_MS + abs(other_ms - submitted_ms))
            weights += weight
            total += weight * sqrt(_typical_after(ordered, now_ms - since_ms))
        return round((total / weights) ** 2)

    def beyond(self, limit_ms: int) -> int:
        """Return the sum of what is longer than a limit."""
        first, count = self.longer_than(limit_ms)
        return sum(self.ordered[first:]) - count * limit_ms

    def longer_than(self, after_ms: int) -> tuple[int, int]:
        """Return the index of the first longer run time, and the number of longer ones."""
        if not after_ms:
            return self.at_once, len(self.came) - self.at_once
        ordered = self.ordered
        first = bisect_right(ordered, after_ms)
        return first, len(ordered) - first


def _put_in_order(ordered: list[T], new: Iterable[T], gone: list[T]) -> None:
    """Add what is new to an ordered list, and remove what is gone."""
    ordered += new
    ordered.sort()  # quick, because only the new ones are out of order
    for each in gone:
        del ordered[bisect_left(ordered, each)]
    gone.clear()


def _typical_after(ordered: Sequence[int], ran_ms: int) -> int:
    """Return the median of the run times longer than that; twice as long if there are too few."""
    first = bisect_right(ordered, ran_ms)
    count = len(ordered) - first
    return ordered[first + count // 2] if count >= ENOUGH else 2 * max(0, ran_ms)


class RunTimes:
    """The latest run times of every kind of gang."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, _Latest] = {}
        self._longest: dict[str, int] = {}
        self._since: dict[str, list[int]] = {}
        """By virtual cluster, when each gang started that runs, the earliest first."""
        self._finished: dict[str, int] = {}
        self.guesses = Guesses()

    def note(self, gang: Gang, ran_ms: int, now_ms: int = 0) -> None:
        """Record the run time of a finished gang, and the accuracy of the guess about it."""
        kinds, name = kinds_of(gang), gang.virtual_cluster
        finished = self._finished[name] = self._finished.get(name, 0) + 1
        if finished <= LATEST or finished % COMPARED == 0:
            self._compare(gang, kinds, ran_ms, now_ms)
        self._longest[name] = max(ran_ms, self._longest.get(name, 0))
        for kind in kinds:
            # The dictionary is ordered by when a gang of the kind last finished.
            latest = self._kinds.pop(kind, None) or _Latest()
            latest.note(gang.submitted_at_ms, ran_ms)
            self._kinds[kind] = latest
        if len(self._kinds) > KINDS_MAX:
            oldest = next(iter(self._kinds))
            latest = self._kinds.pop(oldest)
            if latest.running:
                self._kinds[oldest] = latest

    def _compare(self, gang: Gang, kinds: Iterable[Kind], ran_ms: int, now_ms: int) -> None:
        found = self._enough(kinds, 0)
        if found is None:
            return
        self.guesses.note_run(gang.virtual_cluster, found[0].near(gang.submitted_at_ms, now_ms), ran_ms)

    def _enough(self, kinds: Iterable[Kind], after_ms: int) -> tuple[_Latest, int, int, Kind] | None:
        for kind in kinds:
            latest = self._kinds.get(kind)
            if latest is not None and len(latest.came) >= ENOUGH:
                first, count = latest.longer_than(after_ms)
                if count >= ENOUGH:
                    return latest, first, count, kind
        return None

    def guess(self, gang: Gang, quantile: float, after_ms: int = 0) -> int | None:
        """Return the total run time of a gang that has run for `after_ms`; None if too few similar gangs have finished.

        Of similar gangs that ran longer than `after_ms`, the share `quantile` ran no longer than the answer.
        """
        found = self._enough(kinds_of(gang), after_ms)
        if found is None:
            return None
        latest, first, count, _ = found
        return latest.ordered[first + min(count - 1, int(count * quantile))]

    def mean(self, gang: Gang) -> int | None:
        """Return the mean run time of similar gangs; None if too few have finished."""
        found = self._enough(kinds_of(gang), 0)
        return None if found is None else found[0].total_ms // len(found[0].came)

    def before_and_after(self, gang: Gang, at_ms: int, limit_ms: int | None = None) -> tuple[int, int] | None:
        """Return how long similar gangs ran in all, before and after they had run for `at_ms`; None if too few have.

        With `limit_ms` as if they had had this time limit, which is more than `at_ms`.
        """
        found = self._enough(kinds_of(gang), 0)
        if found is None:
            return None
        latest = found[0]
        after_ms = latest.beyond(at_ms)
        return latest.total_ms - after_ms, after_ms - (0 if limit_ms is None else latest.beyond(limit_ms))

    def begin(self, gang: Gang, since_ms: int) -> tuple[Kind, ...]:
        """Record that a gang runs; its run time so far is used for gangs submitted near it. Return its kinds."""
        insort(self._since.setdefault(gang.virtual_cluster, []), since_ms)
        pair, kinds = (gang.submitted_at_ms, since_ms), kinds_of(gang)
        for kind in kinds:
            latest = self._kinds.get(kind)
            if latest is None:
                latest = self._kinds[kind] = _Latest()
            # Written out, as below: it happens for every kind of every gang that starts or ends.
            running = latest.running
            running[pair] = running.get(pair, 0) + 1
            latest.in_order = None
        return kinds

    def end(self, gang: Gang, since_ms: int, kinds: Iterable[Kind]) -> None:
        """Record that a gang of these kinds runs no longer."""
        starts = self._since.get(gang.virtual_cluster, [])
        first = bisect_left(starts, since_ms)
        if first < len(starts) and starts[first] == since_ms:
            del starts[first]
        pair = gang.submitted_at_ms, since_ms
        for kind in kinds:
            latest = self._kinds.get(kind)
            if latest is not None and pair in latest.running:
                if latest.running[pair] > 1:
                    latest.running[pair] -= 1
                else:
                    del latest.running[pair]
                latest.in_order = None

    def expected(self, gang: Gang, now_ms: int) -> int | None:
        """Return the run time to expect of a waiting gang, from similar gangs submitted around the same time."""
        found = self._enough(kinds_of(gang), 0)
        return None if found is None else found[0].near(gang.submitted_at_ms, now_ms)

    def quartiles(self, gang: Gang, after_ms: int = 0) -> tuple[int, int, str] | None:
        """Return the quartiles of run times longer than `after_ms`, and their kind as text; None if too few."""
        found = self._enough(kinds_of(gang), after_ms)
        if found is None:
            return None
        latest, first, count, kind = found
        return latest.ordered[first + count // 4], latest.ordered[first + count * 3 // 4], kind.describe()

    def of_all(self, virtual_cluster: str) -> tuple[int, int] | None:
        """Return the quartiles of all run times of a virtual cluster, None if too few."""
        latest = self._kinds.get(Kind(virtual_cluster))
        if latest is None or len(latest.came) < ENOUGH:
            return None
        count = len(latest.ordered)
        return latest.ordered[count // 4], latest.ordered[count * 3 // 4]

    def finished(self, virtual_cluster: str) -> int:
        """Return how many gangs of a virtual cluster have finished."""
        return self._finished.get(virtual_cluster, 0)

    def longest(self, virtual_cluster: str, now_ms: int) -> int:
        """Return the longest run time of a gang of a virtual cluster; of those that run, so far.

        Once enough have finished, one that runs counts at most twice as long as the longest of these, since a service
        that never ends says nothing about the others.
        """
        ended_ms, starts = self._longest.get(virtual_cluster, 0), self._since.get(virtual_cluster)
        ran_ms = now_ms - starts[0] if starts else 0
        if ran_ms > ended_ms:
            is_enough = self.finished(virtual_cluster) >= ENOUGH
            return min(ran_ms, 2 * ended_ms) if is_enough else ran_ms
        return ended_ms

    def dump(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "kinds": [[*kind, [list(pair) for pair in latest.came]] for kind, latest in self._kinds.items()],
            "longest": self._longest,
            "finished": self._finished,
            "guesses": self.guesses.dump(),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Restore the result of `dump`."""
        for *kind, came in data["kinds"]:
            latest = self._kinds[Kind(*kind)] = _Latest()
            for submitted_ms, ran_ms in came:
                latest.note(submitted_ms, ran_ms)
        self._longest = dict(data["longest"])
        self._finished = dict(data["finished"])
        if "guesses" in data:  # earlier versions counted differently
            self.guesses.load(data["guesses"])
