"""The waiting gangs, in the order in which they are considered.

Gangs of a virtual cluster with the same request share a lane: if the first of them finds no placement, no other does.
Inside a lane each user has a line, so that gangs of a user with little use can pass older gangs of a user with much use
without sorting. The cost of one pass depends on the number of different requests and users, not of waiting gangs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from openpai.scheduler.cells.cluster import Freed
from openpai.scheduler.cells.model import Code, Shape, Wait, shape_of
from openpai.scheduler.model import Gang, plain
from openpai.scheduler.queue.limits import gpus_of
from openpai.scheduler.queue.requests import GangRequests

LaneKey = tuple[int, int, int, int]
OrderKey = tuple[int, float, int, int, int, int]
"""The smallest goes first: priority, what the virtual cluster borrows, rank, use, age, number."""


@dataclass(slots=True)
class Waiting:
    """A gang in the queue."""

    gang: Gang
    requests: GangRequests
    number: int
    """Number in the order of arrival."""
    preempted_at_ms: int = 0
    """Time of the last decision to preempt its victims."""
    turn: int = 0
    """Sorts before age in its virtual cluster: 0 if only age counts, or for a gang that has waited long."""
    moved_for: str = ""
    """The name of the job that it was moved for, while other cells are reserved for it."""
    whole_nodes: int = 0
    """How many whole nodes of its virtual cluster it needs."""

    @property
    def order(self) -> LaneKey:
        """Return the sort key of gangs of one user in one lane: rank, turn, then age."""
        return -self.gang.rank, self.turn, self.gang.submitted_at_ms, self.number

    @property
    def devices(self) -> int:
        """Return how many devices it requests."""
        return sum(sum(request.sizes()) for request in self.requests)


Counts = tuple[int, int]
"""How often something was freed in a virtual cluster, and anywhere, or -1 if that does not matter."""

Line = list[tuple[LaneKey, Waiting]]
"""The waiting gangs of one user in one lane, in order."""


@dataclass(slots=True)
class Lane:
    """Gangs of one virtual cluster with the same request."""

    group: str
    shape: Shape
    lines: dict[str, Line] = field(default_factory=dict)
    """By user, in order."""
    answer: Wait | None = None
    """Why the first gang found no placement in the last decision about it."""
    looked_at: int = -1
    """The group's count of freed things at that decision."""
    borrowed_at: int = -1
    """The count of all freed things when the first gang last found nothing to borrow."""
    tried: tuple[int, int] = (-1, -1)
    """The group's count, and when the kept cells were chosen, at the last attempt to start on these cells."""
    moves_tried_ms: int = -(1 << 62)
    """When it was last tried in vain to move other gangs for the first gang."""

    def dump(self) -> dict[str, Any]:
        """Return what was found for its gangs, and the name of one of them, as plain data."""
        return {
            "gang": min(line[0][1].gang.id for line in self.lines.values()),
            "answer": None if self.answer is None else plain(self.answer),
            "looked_at": self.looked_at,
            "borrowed_at": self.borrowed_at,
            "tried": list(self.tried),
            "moves_tried_ms": self.moves_tried_ms,
        }

    def load(self, row: Mapping[str, Any]) -> None:
        """Restore the result of `dump`."""
        answer = row["answer"]
        self.answer = None if answer is None else Wait(**{**answer, "code": Code(answer["code"])})
        self.looked_at, self.borrowed_at = row["looked_at"], row["borrowed_at"]
        self.tried, self.moves_tried_ms = (row["tried"][0], row["tried"][1]), row["moves_tried_ms"]


class Stretch(NamedTuple):
    """The first `gangs` gangs of a line."""

    line: Line
    gangs: int

    @property
    def first(self) -> Waiting:
        """Return the first of them; all have the same request and user."""
        return self.line[0][1]

    def nearest_first(self) -> Iterator[Waiting]:
        """Yield them from the last to the first."""
        return (self.line[place][1] for place in range(self.gangs - 1, -1, -1))


def group_of(gang: Gang) -> str:
    """Return the group in which a gang competes: its virtual cluster, or "" for all opportunistic gangs."""
    return gang.virtual_cluster if gang.priority >= 0 else ""


class Queue:
    """All waiting gangs, by group and lane."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Shape, Lane]] = {}
        self._touched: set[str] = set()
        """Groups that must be considered even if nothing was freed there."""
        self._stale: set[str] = set()
        """Groups in which something may have been freed since they were last considered: no other need be compared."""
        self._seen: dict[str, Counts] = {}
        """By group, what had been freed when the whole group was last considered."""
        self._borrowed: set[str] = set()
        """The groups of which some gangs could borrow then."""
        self._all_seen = -1
        """The count of all freed things when all groups were last considered."""
        self._lane_of: dict[str, Lane] = {}
        self._waiting: dict[str, Waiting] = {}
        self._interruptible: dict[str, int] = {}
        """By group, the number of gangs that may borrow."""
        self.wholes: dict[str, int] = {}
        """By group, the number of gangs that need whole nodes, if there are any."""

    def __contains__(self, gang: str) -> bool:
        return gang in self._waiting

    def get(self, gang: str) -> Waiting | None:
        """Return a waiting gang, or None."""
        return self._waiting.get(gang)

    def all(self) -> list[Waiting]:
        """Return all waiting gangs."""
        return list(self._waiting.values())

    def fewest_devices(self) -> int | None:
        """Return how many devices the smallest of the waiting gangs requests; None if none waits."""
        lanes = (lane for lanes in self._groups.values() for lane in lanes.values())
        return min((next(iter(lane.lines.values()))[0][1].devices for lane in lanes), default=None)

    def lane_of(self, gang: str) -> Lane:
        """Return the lane of a gang."""
        return self._lane_of[gang]

    def is_first(self, waiting: Waiting) -> bool:
        """Return whether a waiting gang is the first of its user in its lane."""
        return self._lane_of[waiting.gang.id].lines[waiting.gang.user][0][1] is waiting

    def touch(self, group: str | None = None) -> None:
        """Consider a group, or all groups, in the next round even if nothing is freed."""
        self._touched |= self._groups.keys() if group is None else {group} & self._groups.keys()

    def add(self, waiting: Waiting) -> None:
        """Add a gang in its order."""
        gang = waiting.gang
        # The time limit is part of the shape: a short gang may pass where a longer one may not.
        shape: Shape = (
            gpus_of(gang),
            gang.time_limit_ms,
            gang.is_interruptible,
            *map(shape_of, waiting.requests),
        )
        group = group_of(gang)
        lanes = self._groups.setdefault(group, {})
        lane = lanes.get(shape)
        if lane is None:
            lane = lanes[shape] = Lane(group, shape)
        # If a gang of this lane found no placement in the last full pass, this one would find none either.
        if lane.answer is None or (lane.looked_at,) != self._seen.get(group, ())[:1]:
            self._touched.add(group)
        insort(lane.lines.setdefault(gang.user, []), (waiting.order, waiting))  # no two orders are equal
        self._lane_of[gang.id] = lane
        self._waiting[gang.id] = waiting
        if gang.is_interruptible:
            self._interruptible[group] = self._interruptible.get(group, 0) + 1
        if waiting.whole_nodes:
            self.wholes[group] = self.wholes.get(group, 0) + 1

    def remove(self, gang: str) -> Waiting | None:
        """Remove a gang; return it if it waited."""
        waiting = self._waiting.pop(gang, None)
        if waiting is not None:
            lane = self._lane_of.pop(gang)
            if waiting.gang.is_interruptible:
                self._interruptible[lane.group] -= 1
                if not self._interruptible[lane.group]:
                    del self._interruptible[lane.group]
            if waiting.whole_nodes:
                self.wholes[lane.group] -= 1
                if not self.wholes[lane.group]:
                    del self.wholes[lane.group]
            line = lane.lines[waiting.gang.user]
            del line[bisect_left(line, (waiting.order,))]
            if not line:
                del lane.lines[waiting.gang.user]
                if not lane.lines:
                    del self._groups[lane.group][lane.shape]
                    if not self._groups[lane.group]:
                        del self._groups[lane.group]
        return waiting

    def has_changed(self, freed: Freed) -> bool:
        """Return whether anything was freed or added since all groups were last considered."""
        return freed[""] != self._all_seen or bool(self._touched)

    def due(self, freed: Freed) -> set[str]:
        """Return the groups to consider now: something was freed or added there since they were last considered."""
        return set(self._due(freed, self._changed(freed)))

    def due_among(self, groups: Mapping[str, object], freed: Freed) -> list[str]:
        """Return which of these groups are to be considered now; one in which no gang waits only in the next round."""
        found = self._changed(freed) & groups.keys()
        return list(self._due_of(sorted(found) if len(found) > 1 else found, freed)) if found else []

    def _changed(self, freed: Freed) -> set[str]:
        """Return all groups that may have to be considered, which are few: every round asks for them.

        What was seen of any other group is still so: nothing was freed or added there, and what is freed elsewhere
        does not matter, because none of its gangs can borrow, or could when it was last considered.
        """
        if freed.lately:
            self._stale |= freed.lately
            freed.lately.clear()
        changed = self._stale | self._touched
        return changed.union(self._interruptible, self._borrowed) if self._interruptible or self._borrowed else changed

    def _due(self, freed: Freed, changed: set[str]) -> dict[str, Counts]:
        """Return which of the changed groups to consider."""
        return self._due_of(changed & self._groups.keys(), freed) if self.has_changed(freed) else {}

    def _due_of(self, groups: Iterable[str], freed: Freed) -> dict[str, Counts]:
        """Return which of these groups to consider, with the counts of freed things that matter to them.

        All counts matter if some gangs of the group may borrow.
        """
        seen, touched, borrowing, anywhere = self._seen, self._touched, self._interruptible, freed[""]
        due = {}
        for group in groups:
            now = freed.get(group, 0), anywhere if group in borrowing else -1
            if seen.get(group) != now or group in touched:
                due[group] = now
        return due

    def heads(
        self,
        order_key: Callable[[Waiting], OrderKey],
        freed: Freed,
        given: Callable[[], int],
        is_hopeless: Callable[[Lane, Waiting], bool] = lambda lane, waiting: False,
    ) -> Iterator[tuple[Lane, Waiting]]:
        """Yield the gangs to consider in order: the first of each line, and the next one if that has left meanwhile.

        `freed` counts what was freed, by group: a group where nothing was freed or added since the last pass is
        skipped. `given` counts how often devices were granted or returned, after which gangs may sort later. A line
        is left out if its lane has an answer and `is_hopeless` is true for its first gang.
        """
        anywhere, changed, may_borrow = freed[""], self._changed(freed), bool(self._interruptible)
        worth = self._due(freed, changed)
        heap = [
            (order_key(line[0][1]), user, lane)
            for group in worth
            for lane in self._groups[group].values()
            for user, line in lane.lines.items()
            if lane.answer is None or not is_hopeless(lane, line[0][1])
        ]
        heapify(heap)
        at_first = given()
        while heap:
            before, user, lane = heappop(heap)
            waiting = lane.lines[user][0][1]
            if heap and given() != at_first and before < (lesser := order_key(waiting)) > heap[0][0]:
                heappush(heap, (lesser, user, lane))
                continue
            yield lane, waiting
            line = lane.lines.get(user)
            if line and line[0][1] is not waiting:
                heappush(heap, (order_key(line[0][1]), user, lane))
        self._all_seen = anywhere
        self._seen.update(worth)
        self._touched -= worth.keys()
        self._stale -= changed
        for group, counts in worth.items() if may_borrow or self._borrowed else ():
            (self._borrowed.discard if counts[1] < 0 else self._borrowed.add)(group)

    def waiting_in(self, group: str) -> int:
        """Return how many gangs of a group wait."""
        return sum(len(line) for lane in self._groups.get(group, {}).values() for line in lane.lines.values())

    def has_smaller(self, group: str) -> bool:
        """Return whether a gang of a group waits that needs no whole node."""
        lanes = self._groups.get(group, {}).values()
        return any(not line[0][1].whole_nodes for lane in lanes for line in lane.lines.values())

    def update_turns(self, group: str, turn: Callable[[Waiting], int]) -> None:
        """Set the turn of every gang of a group, and sort its lines."""
        for lane in self._groups.get(group, {}).values():
            for user, line in lane.lines.items():
                for _, waiting in line:
                    waiting.turn = turn(waiting)
                lane.lines[user] = sorted([(waiting.order, waiting) for _, waiting in line])
        self._touched.add(group)

    def dump(self) -> dict[str, Any]:
        """Return what was looked at and found, as plain data; not the gangs themselves."""
        lanes = [lane.dump() for lanes in self._groups.values() for lane in lanes.values()]
        return {
            "touched": sorted(self._touched),
            "seen": {group: list(freed) for group, freed in sorted(self._seen.items())},
            "all_seen": self._all_seen,
            "lanes": sorted(lanes, key=lambda row: str(row["gang"])),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Restore the result of `dump`, once the same gangs were added."""
        self._touched = set(data["touched"])
        self._seen = {group: (own, anywhere) for group, (own, anywhere) in data["seen"].items()}
        self._borrowed = {group for group, (_, anywhere) in self._seen.items() if anywhere >= 0}
        self._all_seen = data["all_seen"]
        for row in data["lanes"]:
            self._lane_of[row["gang"]].load(row)

    def ahead_of(self, waiting: Waiting, order_key: Callable[[Waiting], OrderKey]) -> Iterator[Stretch]:
        """Yield the gangs of its virtual cluster that go before it."""
        owner, own = waiting.gang.virtual_cluster, order_key(waiting)
        for group in dict.fromkeys((owner, "")):
            for lane in self._groups.get(group, {}).values():
                for line in lane.lines.values():
                    # The gangs of a line differ only in rank, turn and age, so the line is sorted by the key.
                    if line[0][1].gang.virtual_cluster == owner:
                        count = bisect_left(line, own, key=lambda item: order_key(item[1]))
                        if count:
                            yield Stretch(line, count)
