"""The gangs that wait, in the order in which they go next.

Gangs of a virtual cluster that ask for the same stand in one lane: when the first of them finds no room, none behind
it would. Inside a lane every user has a line, so that gangs of a user who used little can go before older ones of
one who used much without sorting. A look at the queue costs as much as there are different
requests and users, however many gangs wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from openpai.scheduler.cells.model import Shape, Wait, shape_of
from openpai.scheduler.model import Gang
from openpai.scheduler.queue.limits import gpus_of
from openpai.scheduler.queue.requests import GangRequests

Place = tuple[int, int, int, int]
OrderKey = tuple[int, float, int, int, int, int]
"""Smaller goes first: priority, what the virtual cluster borrows, rank, use, age, number."""


@dataclass(slots=True)
class Waiting:
    """A gang in the queue."""

    gang: Gang
    requests: GangRequests
    number: int
    """Counts gangs as they came."""
    preempted_at_ms: int = 0
    """When its victims were last named."""
    turn: int = 0
    """What goes before age in its virtual cluster: 0 where nothing does, or for one that has waited long."""

    @property
    def order(self) -> Place:
        """Return what decides between gangs of one user in one lane: rank, turn, then age."""
        return -self.gang.rank, self.turn, self.gang.submitted_at_ms, self.number

    @property
    def devices(self) -> int:
        """Return how many devices it asks for."""
        return sum(sum(request.sizes()) for request in self.requests)


@dataclass(slots=True)
class Lane:
    """Gangs of one virtual cluster with the same request."""

    group: str
    shape: Shape
    lines: dict[str, list[tuple[Place, Waiting]]] = field(default_factory=dict)
    """By user, first come first."""
    answer: Wait | None = None
    """Why the first of them found no room when it was last looked at."""
    looked_at: int = -1
    """What the group's count of things freed was then."""
    borrowed_at: int = -1
    """What the count of everything freed was when the first of them last found nothing to borrow."""
    tried: tuple[int, int] = (-1, -1)
    """The same, and when the kept cells were chosen, when the first of them last found no room as a guest on these."""


class Head(NamedTuple):
    """The first gang of a user in a lane."""

    lane: Lane
    waiting: Waiting


class Stretch(NamedTuple):
    """So many gangs from the beginning of a line."""

    line: Sequence[tuple[Place, Waiting]]
    gangs: int

    @property
    def first(self) -> Waiting:
        """Return the first of them; all of them ask for the same, for the same user."""
        return self.line[0][1]

    def nearest_first(self) -> Iterator[Waiting]:
        """Yield them from the last to the first."""
        return (self.line[place][1] for place in range(self.gangs - 1, -1, -1))


def group_of(gang: Gang) -> str:
    """Return which gangs a gang competes with: those of its virtual cluster, or all without a guarantee."""
    return gang.virtual_cluster if gang.priority >= 0 else ""


class Queue:
    """All lanes."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Shape, Lane]] = {}
        self._touched: set[str] = set()
        """Groups that must be looked through though nothing was freed there."""
        self._seen: dict[str, int] = {}
        """What a group's count of things freed was when all of it was last looked through."""
        self._all_seen = -1
        """What the count of everything freed was when all groups were last looked through."""
        self._lane_of: dict[str, Lane] = {}
        self._waiting: dict[str, Waiting] = {}
        self._interruptible: dict[str, int] = {}
        """Gangs by group that may start on what others leave free."""

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

    def is_first(self, waiting: Waiting) -> bool:
        """Return whether a gang that waits is the first of its user in its lane."""
        return self._lane_of[waiting.gang.id].lines[waiting.gang.user][0][1] is waiting

    def touch(self, group: str | None = None) -> None:
        """Look through a group, or all of them, next time even if nothing is freed."""
        self._touched |= self._groups.keys() if group is None else {group}

    def add(self, waiting: Waiting) -> None:
        """Let a gang wait, in its place."""
        gang = waiting.gang
        # Time limits set gangs apart too: a short one may pass where a longer one like it may not.
        shape: Shape = (
            gpus_of(gang),
            gang.time_limit_ms,
            gang.is_interruptible,
            *(shape_of(request) for request in waiting.requests),
        )
        group = group_of(gang)
        lanes = self._groups.setdefault(group, {})
        lane = lanes.get(shape)
        if lane is None:
            lane = lanes[shape] = Lane(group, shape)
        # One like it found no room when all was last looked through: this one would not either.
        if lane.answer is None or lane.looked_at != self._seen.get(group):
            self._touched.add(group)
        insort(lane.lines.setdefault(gang.user, []), (waiting.order, waiting), key=_order)
        self._lane_of[gang.id] = lane
        self._waiting[gang.id] = waiting
        if gang.is_interruptible:
            self._interruptible[group] = self._interruptible.get(group, 0) + 1

    def remove(self, gang: str) -> Waiting | None:
        """Let a gang wait no longer; return it if it did."""
        waiting = self._waiting.pop(gang, None)
        if waiting is not None:
            lane = self._lane_of.pop(gang)
            if waiting.gang.is_interruptible:
                self._interruptible[lane.group] -= 1
            line = lane.lines[waiting.gang.user]
            del line[bisect_left(line, waiting.order, key=_order)]
            if not line:
                del lane.lines[waiting.gang.user]
                if not lane.lines:
                    del self._groups[lane.group][lane.shape]
        return waiting

    def heads(
        self, order_key: Callable[[Waiting], OrderKey], freed: dict[str, int], given: Callable[[], int]
    ) -> Iterator[Head]:
        """Yield the gangs to look at, best right first: one of each line, and the next if it left meanwhile.

        `freed` counts what was freed, by group: a group where nothing was freed or added since it was last looked
        through is passed over. `given` counts what was given to anybody: rights may be smaller after that.
        """
        anywhere = freed[""]
        if anywhere == self._all_seen and not self._touched:
            return
        worth: dict[str, int] = {}
        heap: list[tuple[OrderKey, str, Lane]] = []
        for group, lanes in self._groups.items():
            now = freed.get(group, 0)
            if self._interruptible.get(group):
                now += anywhere
            if self._seen.get(group) != now or group in self._touched:
                worth[group] = now
                for lane in lanes.values():
                    heap += [(order_key(line[0][1]), user, lane) for user, line in lane.lines.items()]
        heapify(heap)
        at_first = given()
        while heap:
            before, user, lane = heappop(heap)
            waiting = lane.lines[user][0][1]
            if given() != at_first and heap and before < (lesser := order_key(waiting)) > heap[0][0]:
                heappush(heap, (lesser, user, lane))
                continue
            yield Head(lane, waiting)
            line = lane.lines.get(user)
            if line and line[0][1] is not waiting:
                heappush(heap, (order_key(line[0][1]), user, lane))
        self._all_seen = anywhere
        self._seen.update(worth)
        self._touched -= worth.keys()

    def devices_awaited(self, group: str) -> int:
        """Return how many devices all gangs of a group wait for."""
        found = 0
        for lane in self._groups.get(group, {}).values():
            lines = list(lane.lines.values())
            found += sum(map(len, lines)) * lines[0][0][1].devices
        return found

    def waiting_in(self, group: str) -> int:
        """Return how many gangs of a group wait."""
        return sum(len(line) for lane in self._groups.get(group, {}).values() for line in lane.lines.values())

    def update_turns(self, group: str, turn: Callable[[Waiting], int]) -> None:
        """Give every gang of a group a new turn, and sort the lines by it."""
        for lane in self._groups.get(group, {}).values():
            for user, line in lane.lines.items():
                for _, waiting in line:
                    waiting.turn = turn(waiting)
                lane.lines[user] = sorted(((waiting.order, waiting) for _, waiting in line), key=_order)
        self._touched.add(group)

    def ahead_of(self, waiting: Waiting, order_key: Callable[[Waiting], OrderKey]) -> Iterator[Stretch]:
        """Yield the gangs of its virtual cluster that go before it."""
        owner, own = waiting.gang.virtual_cluster, order_key(waiting)
        for group in dict.fromkeys((owner, "")):
            for lane in self._groups.get(group, {}).values():
                for line in lane.lines.values():
                    # Nothing but rank and age sets the gangs of a line apart, so it stands in their order.
                    if line[0][1].gang.virtual_cluster == owner:
                        count = bisect_left(line, own, key=lambda item: order_key(item[1]))
                        if count:
                            yield Stretch(line, count)


def _order(item: tuple[Place, Waiting]) -> Place:
    return item[0]
