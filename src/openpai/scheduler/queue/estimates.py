"""Estimates when a waiting gang starts: a range, and the basis of the estimate.

The ends of gangs are simulated twice on a trial copy. In the good case gangs end as early as the first quarter of
similar gangs did, and the waiting gang takes the first placement that fits. In the bad case they end as late as three
quarters did, or at their time limits, and all gangs ahead start first. A gang without a time limit or similar finished
gangs never ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, merge
from typing import Final

from openpai.scheduler.cells.model import Code
from openpai.scheduler.cells.trial import Trial
from openpai.scheduler.model import Estimate, Gang
from openpai.scheduler.queue.limits import Limits, gpus_of
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.running import RunningGang
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting

LEAVES_MAX: Final = 200
"""The number of ends to simulate."""

AHEAD_MAX: Final = 50
"""With more gangs ahead, the estimate uses counts only."""


def estimate(state: SchedulerState, waiting: Waiting, ahead: GangsAhead, now_ms: int) -> Estimate:
    """Return when a gang starts if no other gang is submitted; `ahead` are the gangs that take resources before it."""
    if len(ahead) > AHEAD_MAX:
        return _from_counts(state, waiting, ahead, now_ms)
    nearest_first = list(ahead.nearest_first())
    good = _Course(state, waiting, nearest_first, now_ms, is_good=True)
    earliest_ms = good.play()
    if earliest_ms is None:
        return Estimate(None, None, "too few of the running jobs have a time limit or finished jobs like them")
    bad = _Course(state, waiting, nearest_first, now_ms, is_good=False)
    latest_ms = bad.play()
    basis = " and ".join(sorted(good.sources | bad.sources)) or "what is free now"
    if latest_ms is None:
        return Estimate(earliest_ms, None, f"{basis}; the latest time is unknown")
    return Estimate(earliest_ms, max(earliest_ms, latest_ms), basis)


def _from_counts(state: SchedulerState, waiting: Waiting, ahead: GangsAhead, now_ms: int) -> Estimate:
    """Estimate from the number of devices that gangs ahead request, and the usual run times."""
    gang = waiting.gang
    name = gang.virtual_cluster
    typical = state.running.run_times.of_all(name)
    size = sum(share.size for share in state.core.cluster.shares_of(name))
    if typical is None or not size:
        message = f"{len(ahead)} jobs go first, and too few have finished to say how long that takes"
        return Estimate(None, None, message)
    wanted = ahead.devices() + waiting.devices
    rounds = wanted / size
    earliest_ms = now_ms + int(max(0.0, rounds - 1) * typical[0])
    basis = f"{len(ahead)} jobs ahead need {rounds:.1f} times what {name} has; run times of its finished jobs"
    return Estimate(earliest_ms, now_ms + int((rounds + 1) * typical[1]), basis)


@dataclass(slots=True)
class _Course:
    """One simulated course of events: the good or the bad case."""

    state: SchedulerState
    waiting: Waiting
    nearest_first: Sequence[Waiting]
    """The gangs ahead, the nearest first."""
    now_ms: int
    is_good: bool
    sources: set[str] = field(default_factory=set)
    _ends: list[tuple[int, int, Gang, GangRequests]] = field(default_factory=list)
    _count: int = 0
    _limits: Limits = field(default_factory=Limits)
    """The limits of the waiting gang's user, and what this user runs meanwhile."""

    def play(self) -> int | None:
        """Return when the gang starts, None if unknown."""
        gang = self.waiting.gang
        self._limits = self.state.running.limits.trial_copy(gang.user)
        for held in self.state.running.gangs.values():
            if gang.priority < 0 or gang.virtual_cluster == held.gang.virtual_cluster or gang.user == held.gang.user:
                self._plan(held.gang, held.requests, self._end_of(held))
        with Trial(self.state.core.cluster) as trial:
            return self._play(trial)

    def _play(self, trial: Trial) -> int | None:
        at_ms, left = self.now_ms, list(self.nearest_first)
        for _ in range(LEAVES_MAX):
            while left and self._start(trial, left[-1], at_ms):
                left.pop()
            if (self.is_good or not left) and self._start(trial, self.waiting, at_ms):
                return at_ms
            if not self._ends:
                return None
            at_ms = self._ends[0][0]
            while self._ends and self._ends[0][0] == at_ms:
                _, _, gang, requests = heappop(self._ends)
                self._count_gpus(gang, -1)
                for request in requests:
                    trial.leave(request.id)
        return None

    def _count_gpus(self, gang: Gang, sign: int) -> None:
        if gang.user == self.waiting.gang.user:
            self._limits.run((gang.virtual_cluster, gang.user), sign * gpus_of(gang))

    def _start(self, trial: Trial, waiting: Waiting, at_ms: int) -> bool:
        gang = waiting.gang
        if gang.user == self.waiting.gang.user and self._limits.exceeded(gang) is not None:
            return False
        if not trial.start_all(waiting.requests):
            return False
        self._count_gpus(gang, 1)
        runs_ms = self._length_of(gang, 0)
        self._plan(gang, waiting.requests, None if runs_ms is None else at_ms + runs_ms)
        return True

    def _plan(self, gang: Gang, requests: GangRequests, end_ms: int | None) -> None:
        if end_ms is not None:
            # The count makes entries of equal times comparable; gangs are not.
            self._count += 1
            heappush(self._ends, (max(end_ms, self.now_ms), self._count, gang, requests))

    def _end_of(self, held: RunningGang) -> int | None:
        since_ms = self.now_ms if held.since_ms is None else held.since_ms
        length_ms = self._length_of(held.gang, max(0, self.now_ms - since_ms))
        return None if length_ms is None else since_ms + length_ms

    def _length_of(self, gang: Gang, ran_ms: int) -> int | None:
        """Return the total run time of a gang that has run for `ran_ms`, None if unknown."""
        typical = self.state.running.run_times.quartiles(gang, ran_ms)
        limit_ms = gang.time_limit_ms
        if typical is None:
            if limit_ms is not None:
                self.sources.add("time limits of running jobs")
            return ran_ms if self.is_good and limit_ms is not None else limit_ms
        self.sources.add(f"run times of {typical[2]} that finished")
        length_ms = typical[0] if self.is_good else typical[1]
        return length_ms if limit_ms is None else min(limit_ms, length_ms)


class GangsAhead:
    """The gangs of a virtual cluster that go before one gang and take resources from it.

    They are counted by lane, so that a queue of thousands is not searched gang by gang.
    """

    def __init__(self, state: SchedulerState, waiting: Waiting) -> None:
        self._order_key = state.order_key
        before = state.queue.ahead_of(waiting, state.order_key)
        self._stretches = [stretch for stretch in before if not _is_out(state, stretch.first, waiting)]

    def __len__(self) -> int:
        return sum(stretch.gangs for stretch in self._stretches)

    def devices(self) -> int:
        """Return how many devices they request in total."""
        return sum(stretch.gangs * stretch.first.devices for stretch in self._stretches)

    def nearest_first(self) -> Iterator[Waiting]:
        """Yield them, beginning with the one directly before the gang."""
        return merge(*(stretch.nearest_first() for stretch in self._stretches), key=self._order_key, reverse=True)


def _is_out(state: SchedulerState, other: Waiting, waiting: Waiting) -> bool:
    """Return whether a gang takes nothing: it never fits, or a limit holds it back that the two do not share."""
    answer = state.queue.lane_of(other.gang.id).answer
    if answer is not None and answer.code is Code.TOO_LARGE:
        return True
    limits = state.running.limits
    is_shared = limits.may_ever_run(other.gang) and other.gang.user == waiting.gang.user
    return limits.exceeded(other.gang) is not None and not is_shared
