"""The gangs that run: since when, for which user, and what counts towards limits and fairness.

Facts reach the scheduler without a time; they count from the moment of the next decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from openpai.scheduler.model import Gang
from openpai.scheduler.queue.fairness import Ledger, Owner
from openpai.scheduler.queue.limits import Limits, gpus_of
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.run_times import Kind, RunTimes


class MemberPlace(NamedTuple):
    """The request and position of a member of a gang, and how many devices it has."""

    part: int
    place: int
    devices: int


@dataclass(slots=True)
class RunningGang:
    """A gang that has its spots, at first only as a proposal."""

    gang: Gang
    requests: GangRequests
    number: int
    since_ms: int | None = None
    """When it was placed; None, if unknown, until the next decision."""
    is_proposed: bool = False
    left: set[int] = field(default_factory=set)
    """Members that are over."""
    is_lent: bool = False
    """Whether it borrows its devices until its own virtual cluster has room."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of gangs that it is compared with, once it is known since when it runs."""
    _places: dict[int, MemberPlace] = field(default_factory=dict)

    @property
    def places(self) -> Mapping[int, MemberPlace]:
        """Return the place of every member, computed once because thousands may leave one by one."""
        if not self._places:
            self._places = {
                member: MemberPlace(number, place, devices)
                for number, request in enumerate(self.requests)
                for place, (member, devices) in enumerate(zip(request.positions, request.sizes(), strict=True))
            }
        return self._places

    @property
    def owner(self) -> Owner:
        """Return the virtual cluster and user that it counts for."""
        return self.gang.virtual_cluster, self.gang.user

    @property
    def ends_ms(self) -> int | None:
        """Return when its time limit ends it, None if it has none."""
        limit = self.gang.time_limit_ms
        return None if limit is None or self.since_ms is None else self.since_ms + limit

    def devices(self) -> int:
        """Return how many devices the members that are not over hold."""
        if not self.left:
            requests = self.requests
            return requests[0].devices if len(requests) == 1 else sum([request.devices for request in requests])
        return self.devices_of(member for member in self.places if member not in self.left)

    def devices_of(self, members: Iterable[int]) -> int:
        """Return how many devices these members have."""
        places = self.places
        return sum(places[member].devices for member in members)

    def gpus(self) -> int:
        """Return how many GPUs the members that are not over have."""
        if not self.left:
            return gpus_of(self.gang)
        return self.gpus_of(member for member in self.places if member not in self.left)

    def gpus_of(self, members: Iterable[int]) -> int:
        """Return how many GPUs these members have."""
        asks = self.gang.asks
        return sum(asks[member].gpus for member in members)

    def by_request(self, members: Iterable[int]) -> dict[int, list[int]]:
        """Return the positions of these members in each request that has some of them."""
        inside: dict[int, list[int]] = {}
        for member in members:
            where = self.places[member]
            inside.setdefault(where.part, []).append(where.place)
        return inside

    def restate(self, gang: Gang, requests: GangRequests) -> None:
        """Replace the description of the same members."""
        self.gang, self.requests, self._places = gang, requests, {}


class RunningGangs:
    """All gangs that hold devices."""

    def __init__(self) -> None:
        self.gangs: dict[str, RunningGang] = {}
        self.by_virtual_cluster: dict[str, dict[str, RunningGang]] = {}
        self.limits = Limits()
        self.ledger = Ledger()
        self.run_times = RunTimes()
        self.changes: list[tuple[Owner, int]] = []
        """What was taken and left since use was last counted, in devices."""
        self.ended: list[tuple[Gang, int]] = []
        """The gangs that finished since the last decision, and when they began."""
        self._timeless: list[RunningGang] = []

    def take(self, held: RunningGang) -> None:
        """Add a gang that holds devices."""
        self.gangs[held.gang.id] = held
        self.by_virtual_cluster.setdefault(held.gang.virtual_cluster, {})[held.gang.id] = held
        if held.since_ms is None:
            self._timeless.append(held)
        else:
            held.kinds = self.run_times.begin(held.gang, held.since_ms)
        self._count(held, held.gpus(), held.devices())

    def leave(self, held: RunningGang, members: Collection[int]) -> None:
        """Remove members that left. The cost depends on how many leave, not on how many stay."""
        self._count(held, -held.gpus_of(members), -held.devices_of(members))
        held.left.update(members)

    def forget(self, gang: str, *, is_finished: bool = False) -> None:
        """Remove a gang; its run time is recorded if it finished."""
        held = self.gangs.pop(gang, None)
        if held is not None:
            del self.by_virtual_cluster[held.gang.virtual_cluster][gang]
            if len(held.left) < len(held.gang.asks):
                self._count(held, -held.gpus(), -held.devices())
            if held.since_ms is not None:
                self.run_times.end(held.gang, held.since_ms, held.kinds)
            if is_finished and held.since_ms is not None:
                self.ended.append((held.gang, held.since_ms))

    def restate(self, held: RunningGang, gang: Gang, requests: GangRequests) -> None:
        """Replace the description of a running gang."""
        self._count(held, -held.gpus(), -held.devices())
        if held.since_ms is not None:
            self.run_times.end(held.gang, held.since_ms, held.kinds)
            held.kinds = self.run_times.begin(gang, held.since_ms)
        del self.by_virtual_cluster[held.gang.virtual_cluster][gang.id]
        held.restate(gang, requests)
        self.by_virtual_cluster.setdefault(gang.virtual_cluster, {})[gang.id] = held
        self._count(held, held.gpus(), held.devices())

    def settle(self, now_ms: int) -> None:
        """Date everything that happened since the last call to now."""
        self.settle_use(now_ms)
        if self.ended:
            for gang, since_ms in self.ended:
                self.run_times.note(gang, max(0, now_ms - since_ms), now_ms)
            self.ended = []
        if self._timeless:
            for held in self._timeless:
                held.since_ms = now_ms
                if self.gangs.get(held.gang.id) is held:
                    held.kinds = self.run_times.begin(held.gang, now_ms)
            self._timeless = []

    def settle_use(self, now_ms: int) -> None:
        """Count what was taken and left since the last call from now on."""
        if self.changes:
            for owner, devices in self.changes:
                self.ledger.hold(owner, devices, now_ms)
            self.changes = []

    def _count(self, held: RunningGang, gpus: int, devices: int) -> None:
        owner = held.owner
        self.limits.run(owner, gpus)
        self.ledger.expect(owner, devices)
        self.changes.append((owner, devices))
