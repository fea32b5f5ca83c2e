"""The values of the HiveD core: requests, decisions, and the records of gangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from openpai.scheduler.cells.chain import Guarantee, NodeCell
from openpai.scheduler.cells.journal import Part
from openpai.scheduler.model import Spot, Topology

OPPORTUNISTIC: Final = -1
PRIORITY_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class CellGroup:
    """Members that must run inside one cell of a type, and nested groups that must run still closer together."""

    cell_type: str
    members: tuple[int, ...] = ()
    """Their positions in the gang, counted from 0, without those of its groups."""
    groups: tuple[CellGroup, ...] = ()

    def all_members(self) -> tuple[int, ...]:
        """Return its members and those of its groups."""
        return (*self.members, *(member for group in self.groups for member in group.all_members()))

    def fits_types(self, types: Sequence[str]) -> bool:
        """Return whether a chain of these cell types has all that it names."""
        return self.cell_type in types and all(group.fits_types(types) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Uncountable:
    """Why no number of devices is enough for members of a gang."""

    message: str
    is_without_gpus: bool = False
    """Whether members ask for GPUs where no node has any."""


@dataclass(frozen=True, slots=True)
class GangRequest:
    """Members that start together or not at all."""

    id: str
    virtual_cluster: str
    members: tuple[tuple[int, int], ...]
    """Pairs: how many members, and how many devices each of them needs on one node."""
    priority: int = 0
    """-1 (opportunistic: any free device, no guarantee) to 1000."""
    leaf_type: str | None = None
    """Type of device; None for any."""
    pinned_cell: str | None = None
    is_lazily_preemptible: bool = False
    """Whether it may lose its guarantee to a higher priority without being stopped, as long as its devices are free."""
    topology: Topology | None = None
    nodes: frozenset[str] | None = None
    """Only these nodes may be used; None for all."""
    groups: tuple[CellGroup, ...] = ()
    """Members that must run closer together. "Two devices in one switch" is a group of one member."""
    checkpoint_every_ms: int | None = field(default=None, compare=False)
    """How often it saves its work, if it says so."""
    positions: tuple[int, ...] = field(default=(), compare=False)
    """Which asks of a gang its members are, for the queue: a gang may be placed by several requests."""

    @property
    def has_constraints(self) -> bool:
        """Return whether it restricts which cells may serve it."""
        is_bound = self.topology is not None and self.topology.is_required
        return is_bound or self.nodes is not None or bool(self.groups)

    @property
    def devices(self) -> int:
        """Return how many devices it needs in all."""
        if len(self.members) == 1:
            return self.members[0][0] * self.members[0][1]
        return sum([count * leaves for count, leaves in self.members])

    def sizes(self) -> tuple[int, ...]:
        """Return how many devices each member needs, in order."""
        if len(self.members) == 1:
            return (self.members[0][1],) * self.members[0][0]
        return tuple([leaves for count, leaves in self.members for _ in range(count)])


class Code(StrEnum):
    """Why a gang waits."""

    QUOTA_USED = "QUOTA_USED"
    """Its virtual cluster has too few devices left."""
    FRAGMENTED = "FRAGMENTED"
    """Enough devices are left, but too few on one node."""
    OUTSIDE_TOPOLOGY = "OUTSIDE_TOPOLOGY"
    """There is room, but not inside one cell of the required type, or not on the nodes it may use."""
    BAD_HARDWARE = "BAD_HARDWARE"
    """There would be room if nodes or devices were not bad or draining."""
    TOO_LARGE = "TOO_LARGE"
    """It is larger than its virtual cluster's promise, or than any part of the cluster."""
    NO_IDLE_DEVICES = "NO_LEFTOVERS"
    """It is opportunistic, and too few idle devices are close enough together."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Every member has a place. `spots` is in the order of the members."""

    gang: str
    spots: tuple[Spot, ...]
    chain: str
    lazily_preempted: tuple[str, ...] = ()
    """Gangs that run on where they are, without a guarantee from now on."""
    displaced: tuple[str, ...] = ()
    """Gangs that waited for their victims and lose what was reserved for them."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """The gang can run at `spots` once `victims` have left; committed, the spots are reserved for it."""

    gang: str
    victims: tuple[str, ...]
    spots: tuple[Spot, ...]
    chain: str
    lazily_preempted: tuple[str, ...] = ()
    displaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """The gang cannot run now: the reason, and what would change that, for its owner."""

    gang: str
    code: Code
    message: str
    unblock: str
    counts: Mapping[str, int] = field(default_factory=dict)
    """The numbers in the message."""
    unhealthy_chain: str = ""
    """The chain whose bad or draining nodes it could use if they were healthy."""


Decision = Bind | Preempt | Wait


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The health of a node. Nothing new is placed on what is bad or draining; what runs there runs on."""

    is_healthy: bool = True
    is_draining: bool = False
    bad_devices: frozenset[int] = frozenset()

    def mask(self, node_cell: NodeCell) -> int:
        """Return the devices of a node that cannot be used, as bits."""
        return node_cell.full if not self.is_healthy or self.is_draining else node_cell.mask_of(tuple(self.bad_devices))


SOUND: Final = NodeHealth()


class State(StrEnum):
    """The state of a gang, in HiveD's words."""

    PREEMPTING = "Preempting"
    ALLOCATED = "Allocated"
    BEING_PREEMPTED = "BeingPreempted"


@dataclass(slots=True)
class GangRecord:
    """The record of a gang that has its devices, or waits for others to leave them."""

    request: GangRequest
    parts: list[Part | None]
    state: State = State.ALLOCATED
    since_ms: int | None = None
    checkpoint_ms: int | None = None
    victims: set[str] = field(default_factory=set)
    """Gangs that must leave before it can start."""
    threats: set[str] = field(default_factory=set)
    """Gangs that wait for it to leave."""
    lost: dict[int, Guarantee] = field(default_factory=dict)
    """The guarantees it lost, by member; returned if the gang that took them is cancelled."""
    lazily_preempted_by: str | None = None
    spots: tuple[Spot | None, ...] = ()
    """Where the members run, also on devices that the configuration no longer has."""

    @property
    def leaves(self) -> int:
        """Return how many devices it has."""
        return sum(part.mask.bit_count() for part in self.parts if part is not None)

    def at_risk_ms(self, now_ms: int) -> int:
        """Return how long it has run since it saved its work, at most; a gang of unknown age has run for longest."""
        every_ms = self.request.checkpoint_every_ms
        unsaved_ms = max(0, now_ms - max(self.since_ms or 0, self.checkpoint_ms or 0))
        return unsaved_ms if every_ms is None else min(every_ms, unsaved_ms)


Shape = tuple[object, ...]
"""The part of a request that decides whether there is room for it."""


def shape_of(request: GangRequest) -> Shape:
    """Return what two requests must have in common to get the same answer."""
    return (
        request.virtual_cluster, request.priority, request.members, request.leaf_type, request.pinned_cell,
        request.topology, request.nodes, request.groups,
    )  # fmt: skip
