"""Who holds what, outside the core: since when, for which user, and what of it counts towards limits and fairness.

Facts reach the scheduler without a time of their own; they count from the moment it decides next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from openpai.scheduler.hived.fairness import Ledger, Owner
from openpai.scheduler.hived.limiting import Limits
from openpai.scheduler.hived.portions import Portions
from openpai.scheduler.hived.runtimes import RunTimes
from openpai.scheduler.model import Gang


@dataclass(slots=True)
class Held:
    """A gang that has its spots, or for which they are set aside."""

    gang: Gang
    portions: Portions
    number: int
    since_ms: int | None = None
    """When it was placed; None until the next decision if nobody said."""
    is_proposed: bool = False
    left: set[int] = field(default_factory=set)
    """Members that are over."""

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
        return sum(
            size
            for portion in self.portions
            for member, size in zip(portion.members, portion.request.sizes(), strict=True)
            if member not in self.left
        )

    def gpus(self) -> int:
        """Return how many GPUs its members have that are not over."""
        return sum(ask.gpus for member, ask in enumerate(self.gang.asks) if member not in self.left)


class Standing:
    """All gangs that hold something."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.limits = Limits()
        self.ledger = Ledger()
        self.run_times = RunTimes()
        self._changes: list[tuple[Owner, int]] = []
        self._ended: list[tuple[Owner, int]] = []
        self._timeless: list[Held] = []

    def take(self, held: Held) -> None:
        """A gang holds what it was given."""
        self.held[held.gang.id] = held
        if held.since_ms is None:
            self._timeless.append(held)
        self._count(held, 1)

    def leave(self, held: Held, members: Iterable[int]) -> None:
        """Members of a gang hold nothing any more."""
        self._count(held, -1)
        held.left.update(members)
        self._count(held, 1)

    def forget(self, gang: str, *, is_finished: bool = False) -> None:
        """A gang holds nothing any more; how long it ran is remembered if it finished."""
        held = self.held.pop(gang, None)
        if held is not None:
            self._count(held, -1)
            if is_finished and held.since_ms is not None:
                self._ended.append((held.owner, held.since_ms))

    def restate(self, held: Held, gang: Gang, portions: Portions) -> None:
        """A gang runs on under another description."""
        self._count(held, -1)
        held.gang, held.portions = gang, portions
        self._count(held, 1)

    def settle(self, now_ms: int) -> None:
        """Let everything that happened since the last time have happened now."""
        self.settle_use(now_ms)
        for owner, since_ms in self._ended:
            self.run_times.note(owner, max(0, now_ms - since_ms))
        for held in self._timeless:
            held.since_ms = now_ms
        self._ended, self._timeless = [], []

    def settle_use(self, now_ms: int) -> None:
        """Let what was taken and left since the last time count from now on."""
        for owner, devices in self._changes:
            self.ledger.hold(owner, devices, now_ms)
        self._changes = []

    def _count(self, held: Held, sign: int) -> None:
        self.limits.run(held.owner, sign * held.gpus())
        self.ledger.expect(held.owner, sign * held.devices())
        self._changes.append((held.owner, sign * held.devices()))
