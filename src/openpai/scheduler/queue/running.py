"""The gangs that run: since when, for which user, and what of it counts towards limits and fairness.

Facts reach the scheduler without a time of their own; they count from the moment it decides next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from openpai.scheduler.model import Gang
from openpai.scheduler.queue.fairness import Ledger, Owner
from openpai.scheduler.queue.limits import Limits
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.run_times import RunTimes


class MemberPlace(NamedTuple):
    """Where a member of a gang stands in its portions, and how many devices it has."""

    part: int
    place: int
    devices: int


@dataclass(slots=True)
class RunningGang:
    """A gang that has its spots, or for which they are set aside."""

    gang: Gang
    requests: GangRequests
    number: int
    since_ms: int | None = None
    """When it was placed; None until the next decision if unknown."""
    is_proposed: bool = False
    left: set[int] = field(default_factory=set)
    """Members that are over."""
    is_lent: bool = False
    """Whether it runs on what others leave free, until its own virtual cluster has room."""
    _places: dict[int, MemberPlace] = field(default_factory=dict)

    @property
    def places(self) -> Mapping[int, MemberPlace]:
        """Return the placement hint of every member, computed once: thousands may leave one by one."""
        if not self._places:
            self._places = {
                member: MemberPlace(number, place, devices)
                for number, request in enumerate(self.requests)
                for place, (member, devices) in enumerate(zip(request.positions, request.sizes(), strict=True))
            }
        return self._places

    @property
    def owner(self) -> Owner:
        """Return the virtual cluster and user it counts for."""
        return self.gang.virtual_cluster, self.gang.user

    @property
    def ends_ms(self) -> int | None:
        """Return when it must have ended, None if it may run for as long as it likes."""
        limit = self.gang.time_limit_ms
        return None if limit is None or self.since_ms is None else self.since_ms + limit

    def devices(self) -> int:
        """Return how many devices its members hold that are not over."""
        return self.devices_of(member for member in self.places if member not in self.left)

    def devices_of(self, members: Iterable[int]) -> int:
        """Return how many devices these members have."""
        places = self.places
        return sum(places[member].devices for member in members)

    def gpus(self) -> int:
        """Return how many GPUs its members have that are not over."""
        return self.gpus_of(member for member in self.places if member not in self.left)

    def gpus_of(self, members: Iterable[int]) -> int:
        """Return how many GPUs these members have."""
        asks = self.gang.asks
        return sum(asks[member].gpus for member in members)

    def by_request(self, members: Iterable[int]) -> dict[int, list[int]]:
        """Return the places of these members in each portion that has some of them."""
        inside: dict[int, list[int]] = {}
        for member in members:
            where = self.places[member]
            inside.setdefault(where.part, []).append(where.place)
        return inside

    def restate(self, gang: Gang, requests: GangRequests) -> None:
        """Go on under another description of the same members."""
        self.gang, self.requests, self._places = gang, requests, {}


class RunningGangs:
    """All gangs that hold something."""

    def __init__(self) -> None:
        self.gangs: dict[str, RunningGang] = {}
        self.limits = Limits()
        self.ledger = Ledger()
        self.run_times = RunTimes()
        self._changes: list[tuple[Owner, int]] = []
        self._ended: list[tuple[Gang, int]] = []
        self._timeless: list[RunningGang] = []

    def take(self, held: RunningGang) -> None:
        """A gang holds what it was given."""
        self.gangs[held.gang.id] = held
        if held.since_ms is None:
            self._timeless.append(held)
        else:
            self.run_times.begin(held.gang, held.since_ms)
        self._count(held, held.gpus(), held.devices())

    def leave(self, held: RunningGang, members: Collection[int]) -> None:
        """Members of a gang that were there hold nothing any more. Costs what they are, however many stay."""
        self._count(held, -held.gpus_of(members), -held.devices_of(members))
        held.left.update(members)

    def forget(self, gang: str, *, is_finished: bool = False) -> None:
        """A gang holds nothing any more; how long it ran is remembered if it finished."""
        held = self.gangs.pop(gang, None)
        if held is not None:
            self._count(held, -held.gpus(), -held.devices())
            if held.since_ms is not None:
                self.run_times.end(held.gang, held.since_ms)
            if is_finished and held.since_ms is not None:
                self._ended.append((held.gang, held.since_ms))

    def restate(self, held: RunningGang, gang: Gang, requests: GangRequests) -> None:
        """A gang runs on under another description."""
        self._count(held, -held.gpus(), -held.devices())
        if held.since_ms is not None:
            self.run_times.end(held.gang, held.since_ms)
            self.run_times.begin(gang, held.since_ms)
        held.restate(gang, requests)
        self._count(held, held.gpus(), held.devices())

    def settle(self, now_ms: int) -> None:
        """Let everything that happened since the last time have happened now."""
        self.settle_use(now_ms)
        for gang, since_ms in self._ended:
            self.run_times.note(gang, max(0, now_ms - since_ms), now_ms)
        for held in self._timeless:
            held.since_ms = now_ms
            if self.gangs.get(held.gang.id) is held:
                self.run_times.begin(held.gang, now_ms)
        self._ended, self._timeless = [], []

    def settle_use(self, now_ms: int) -> None:
        """Let what was taken and left since the last time count from now on."""
        for owner, devices in self._changes:
            self.ledger.hold(owner, devices, now_ms)
        self._changes = []

    def _count(self, held: RunningGang, gpus: int, devices: int) -> None:
        self.limits.run(held.owner, gpus)
        self.ledger.expect(held.owner, devices)
        self._changes.append((held.owner, devices))
