"""What crosses the scheduler's doorstep: gangs in, placements, preemptions and reasons out.

The scheduler knows neither job files nor containers. A gang is a list of members that start together or not at
all; a spot is where one member goes. Ids are opaque to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Ask:
    """What one member of a gang needs on one node."""

    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Topology:
    """A request to stay inside one cell of this type: a switch, a node, a rack."""

    cell_type: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Members of a gang that want the same kind of hardware and are placed close together."""

    members: tuple[int, ...]
    """Their places in the gang's `asks`."""
    sku_type: str | None = None
    pinned_cell: str | None = None
    name: str = ""
    cell_types: tuple[str | None, ...] = ()
    """By member, the type of the cell that its devices must be inside of; empty where none has such a request."""
    cell_type: str | None = None
    """The type of the cell that all of its members must be inside of."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Members that start together or not at all. `asks` has one entry per member, in order."""

    id: str
    asks: tuple[Ask, ...]
    virtual_cluster: str = "default"
    priority: int = 0
    """-1 (opportunistic) to 1000; higher goes first."""
    submitted_at_ms: int = 0
    user: str = ""
    job: str = ""
    """The job it belongs to, for messages: `user~job`."""
    sku_type: str | None = None
    pinned_cell: str | None = None
    is_lazily_preemptible: bool = False
    is_interruptible: bool = False
    """Whether it may start on what others leave free, and be sent away, until its own virtual cluster has room."""
    groups: tuple[Group, ...] = ()
    """Its affinity groups where they want different hardware; empty when all members want `sku_type`/`pinned_cell`."""
    topology: Topology | None = None
    rank: int = 0
    """Set by an administrator: among equal priorities a higher rank goes first."""
    time_limit_ms: int | None = None
    """How long it may run once it starts; None for as long as it likes."""


class Spot(NamedTuple):
    """Where one member runs: a node, and which of its devices."""

    node: str
    devices: tuple[int, ...]
    """Numbers of the GPUs it gets: as many as it asked for."""
    placement_hint: str = ""
    """What `restore` needs to put the member exactly there; opaque to callers."""


@dataclass(frozen=True, slots=True)
class Place:
    """Every member of a gang has its spot; `spots` is in the order of the gang's asks."""

    gang: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """`gang` could run if these gangs left; it is more urgent or has a guarantee that they lack."""

    gang: str
    victims: tuple[str, ...]
    whys: tuple[str, ...]
    """Why each of the victims must leave, for its owner."""


Decision = Place | Preempt


class Why(StrEnum):
    """Why a gang waits."""

    NO_NODE = "NO_NODE"
    NOT_ENOUGH_FREE = "NOT_ENOUGH_FREE"
    FRAGMENTED = "FRAGMENTED"
    UNHEALTHY_NODES = "UNHEALTHY_NODES"
    BEHIND_OLDER_JOB = "BEHIND_OLDER_JOB"
    BEHIND_HIGHER_PRIORITY = "BEHIND_HIGHER_PRIORITY"
    USER_LIMIT = "USER_LIMIT"
    """Its user runs as much as one user may run in this virtual cluster."""
    NO_VIRTUAL_CLUSTER = "NO_VIRTUAL_CLUSTER"
    """The virtual cluster it was submitted to is not there, or was promised nothing."""
    BACKING_OFF = "BACKING_OFF"
    STARTING = "STARTING"
    """It has its devices; what it needs there, above all its image, is being fetched."""
    NOT_YET_LOOKED_AT = "NOT_YET_LOOKED_AT"


class Order(StrEnum):
    """The order in a virtual cluster of gangs with the same priority and rank."""

    FAIR = "fair"
    """Those of users who used less lately, then the older."""
    FIFO = "fifo"
    """The older."""
    SHORTEST = "shortest"
    """Those that should be done soonest, then the older; a gang that has waited long goes before all of these."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a gang may start: between these times, and the basis of the guess. None where it is unknown."""

    earliest_ms: int | None
    latest_ms: int | None
    basis: str


@dataclass(frozen=True, slots=True)
class Limit:
    """How many GPUs one user may run at a time; one of a virtual cluster and one over all of them hold together."""

    gpus: int | None
    """None: no limit, even where a limit for all users exists."""
    virtual_cluster: str = ""
    """Empty: over all of them together."""
    user: str = ""
    """Empty: any one user who has no limit of their own there."""


class Refusal(NamedTuple):
    """Why a gang could never run, and what would make it fit, for its owner."""

    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a gang waits, and what would change it, for its owner."""

    gang: str
    code: Why
    message: str
    unblock: str = ""
    ahead: tuple[str, ...] = ()
    """`user~job` of the gangs that go first, nearest first, at most a handful."""
    position: int = 0
    """Place in the queue, counted from 1; 0 for a gang that lets others pass because it never fits."""
    estimate: Estimate | None = None
    """When it may start; None when it was not estimated."""
    more: int = 0
    """How many further gangs of the same job wait for the same, behind this one, each without a `Wait` of its own."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine's capacity, and what of it may be used."""

    name: str
    cpus: int
    memory_mb: int
    gpus: int
    is_schedulable: bool = True
    """False while it is unhealthy or drained: what runs there runs on, nothing new starts."""
    bad_devices: frozenset[int] = field(default=frozenset())
    gpu_model: str = ""
    message: str = ""
    """Why not all of it may be used, for people; empty when all may be."""
