"""Gangs that wait, in the order in which they have a right to go next.

Gangs of a virtual cluster that ask for the same stand in one lane: when the first of them finds no room, none behind it
would. So a look at the queue costs as much as there are different wishes, however many gangs wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from openpai.scheduler.hived.core import Shape, shape_of
from openpai.scheduler.hived.model import GangRequest, Wait
from openpai.scheduler.model import Gang

Order = tuple[int, int, int]


@dataclass(slots=True)
class Waiting:
    """A gang in the queue."""

    gang: Gang
    request: GangRequest
    number: int
    """Counts gangs as they came."""
    behind: str | None = None
    """The gang that it may not pass."""
    preempted_at_ms: int = 0
    """When its victims were last named."""

    @property
    def order(self) -> Order:
        """Return what decides between gangs of one virtual cluster: priority, then age."""
        return -self.gang.priority, self.gang.submitted_at_ms, self.number


@dataclass(slots=True)
class Lane:
    """Gangs of one virtual cluster with the same wish, first come first."""

    group: str
    shape: Shape
    waiting: list[tuple[Order, Waiting]] = field(default_factory=list)
    answer: Wait | None = None
    """Why the first of them found no room when it was last looked at."""
    looked_at: int = -1
    """What the group's count of things freed was then."""

    @property
    def first(self) -> Waiting:
        """Return who goes first."""
        return self.waiting[0][1]


class Queue:
    """All lanes."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Shape, Lane]] = {}
        self._touched: set[str] = set()
        """Groups with a new lane."""
        self._seen: dict[str, int] = {}
        """What a group's count of things freed was when all of it was last looked through."""
        self._lane_of: dict[str, Lane] = {}
        self._waiting: dict[str, Waiting] = {}

    def __contains__(self, gang: str) -> bool:
        return gang in self._waiting

    def get(self, gang: str) -> Waiting | None:
        """Return a gang that waits."""
        return self._waiting.get(gang)

    def all(self) -> list[Waiting]:
        """Return every gang that waits."""
        return list(self._waiting.values())

    def lane_of(self, gang: str) -> Lane:
        """Return the lane a gang stands in."""
        return self._lane_of[gang]

    def add(self, waiting: Waiting) -> None:
        """Let a gang wait, in its place."""
        shape = shape_of(waiting.request)
        group = waiting.request.virtual_cluster if waiting.request.priority >= 0 else ""
        lanes = self._groups.setdefault(group, {})
        lane = lanes.get(shape)
        if lane is None:
            lane = lanes[shape] = Lane(group, shape)
            self._touched.add(group)
        insort(lane.waiting, (waiting.order, waiting), key=lambda item: item[0])
        self._lane_of[waiting.gang.id] = lane
        self._waiting[waiting.gang.id] = waiting

    def remove(self, gang: str) -> Waiting | None:
        """Let a gang wait no longer; return it if it did."""
        waiting = self._waiting.pop(gang, None)
        if waiting is not None:
            lane = self._lane_of.pop(gang)
            del lane.waiting[bisect_left(lane.waiting, waiting.order, key=lambda item: item[0])]
            if not lane.waiting:
                del self._groups[lane.group][lane.shape]
        return waiting

    def heads(self, right: Callable[[Waiting], tuple[object, ...]], freed: dict[str, int]) -> Iterator[Lane]:
        """Yield the lanes to look at, best right first; a lane comes again if its first gang left it meanwhile.

        `freed` counts what was freed, by group: a group where nothing was freed or added since it was last looked
        through is passed over.
        """
        worth: dict[str, int] = {}
        heap = []
        for group, lanes in self._groups.items():
            now = freed.get(group, 0)
            if group in self._touched or self._seen.get(group) != now:
                worth[group] = now
                heap += [(right(lane.first), lane.first.number, lane) for lane in lanes.values()]
        heapify(heap)
        while heap:
            _, number, lane = heappop(heap)
            yield lane
            if lane.waiting and lane.first.number != number:
                heappush(heap, (right(lane.first), lane.first.number, lane))
        self._seen.update(worth)
        self._touched.clear()

    def ahead_of(self, waiting: Waiting) -> list[Waiting]:
        """Return the gangs of its virtual cluster that go before it, in order."""
        owner = waiting.gang.virtual_cluster
        others = (other for other in self._waiting.values() if other.gang.virtual_cluster == owner)
        return sorted((other for other in others if other.order < waiting.order), key=lambda other: other.order)
