"""The values of the scheduler's interface: gangs and nodes in, placements, preemptions and reasons out.

The scheduler knows neither job files nor containers. A gang is a list of members that start together or not at
all; a spot is where one member runs. Ids are opaque to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple


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
    """Members of a gang that need the same hardware and are placed close together."""

    members: tuple[int, ...]
    """Their positions in the gang's `asks`."""
    sku_type: str | None = None
    pinned_cell: str | None = None
    name: str = ""
    cell_types: tuple[str | None, ...] = ()
    """By member, the type of the cell that its devices must be inside; empty where no member has such a request."""
    cell_type: str | None = None
    """The type of the cell that all of its members must be inside."""


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
    """Whether it may start on idle devices of other virtual clusters, and be preempted there."""
    groups: tuple[Group, ...] = ()
    """Its affinity groups if they need different hardware; empty when all members use `sku_type` and `pinned_cell`."""
    topology: Topology | None = None
    rank: int = 0
    """Set by an administrator: among equal priorities a higher rank goes first."""
    time_limit_ms: int | None = None
    """How long it may run; None for no limit."""
    checkpoint_every_ms: int | None = None
    """How often it saves its work, if it says so."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that it must not use, because they failed it."""
    attempt: int = 0
    """How often its job started before; each time it must run for longer before it is moved."""


class Spot(NamedTuple):
    """Where one member runs: a node, and some of its devices."""

    node: str
    devices: tuple[int, ...]
    """Numbers of the GPUs it gets: as many as it asked for."""
    placement_hint: str = ""
    """What `restore` needs to place the member exactly there; opaque to callers."""


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
    moved: Mapping[str, int] = field(default_factory=dict)
    """The victims that other cells are reserved for, where they can start again at once: how many milliseconds of
    their work are not saved."""


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
    """Its user runs as many GPUs as a limit allows."""
    NO_VIRTUAL_CLUSTER = "NO_VIRTUAL_CLUSTER"
    """The virtual cluster it was submitted to does not exist, or was promised nothing."""
    WAITS_FOR_JOB = "WAITS_FOR_JOB"
    """Another job has to end first."""
    WAITS_FOR_ADMISSION = "WAITS_FOR_ADMISSION"
    """A queue of the cluster, such as one of Kueue, has to admit it first."""
    BACKING_OFF = "BACKING_OFF"
    STARTING = "STARTING"
    """It has its devices; what it needs there, such as its image, is being fetched."""
    NODE_SILENT = "NODE_SILENT"
    """A node of it does not answer, and its tasks there may still run."""
    NOT_YET_LOOKED_AT = "NOT_YET_LOOKED_AT"


class Order(StrEnum):
    """The order of gangs with the same priority and rank in a virtual cluster."""

    FAIR = "fair"
    """Gangs of users who used less lately, then older gangs."""
    FIFO = "fifo"
    """Older gangs."""
    SHORTEST = "shortest"
    """Gangs with the shortest expected run time, then older gangs; one that has waited for long goes before them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a gang may start: between these times, and the basis of the estimate. None if unknown."""

    earliest_ms: int | None
    latest_ms: int | None
    basis: str
    judged: int = 0
    """How many of the latest starts in its virtual cluster had been estimated, ..."""
    within: int = 0
    """... and how many of these were within the range."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good the latest guesses about a virtual cluster were."""

    starts: int = 0
    """Starts that had been estimated."""
    starts_within: int = 0
    """Those within the range of the estimate, or a minute of it."""
    runs: int = 0
    """Run times that had been guessed."""
    runs_within_2x: int = 0
    """Those where the gang ran at most twice, and at least half, as long."""
    run_error: float | None = None
    """The median of how many times longer or shorter gangs ran than guessed; None without guesses."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How many GPUs one user may run at a time; a limit in a virtual cluster and one over all of them both apply."""

    gpus: int | None
    """None: no limit, even where a limit for all users exists."""
    virtual_cluster: str = ""
    """Empty: over all of them together."""
    user: str = ""
    """Empty: each user without a limit of their own there."""


class Refusal(NamedTuple):
    """Why a gang could never run, and what would make it fit, for its owner."""

    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Lent:
    """Devices of a waiting gang's virtual cluster that jobs of another one use without a guarantee."""

    virtual_cluster: str
    """The one that uses them."""
    gpus: int
    cpus: int


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
    """Place in the queue, counted from 1; 0 for a gang that all others pass because it never fits."""
    estimate: Estimate | None = None
    """When it may start; None when it was not estimated."""
    more: int = 0
    """How many further gangs of the same job wait for the same reason behind this one."""
    lent: tuple[Lent, ...] = ()
    """What others use of its virtual cluster's promise, largest first; if devices are reserved for it, of those."""
    is_interruptible: bool = False
    """Whether it may borrow idle devices and be preempted there."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that waits, in the queue of its virtual cluster."""

    job: str
    gang: Gang
    """The first of its gangs that wait."""
    is_movable: bool = True
    """Whether its rank decides when it is considered: not once devices are reserved for it, nor if it fits nowhere."""
    gangs: int = 1
    """How many of its gangs wait."""
    wait: Wait | None = None
    """Why the first one waits; None if that was not worked out."""


@dataclass(frozen=True, slots=True)
class Node:
    """The capacity of a node, and which part of it may be used."""

    name: str
    cpus: int
    memory_mb: int
    gpus: int
    is_schedulable: bool = True
    """False while it is unhealthy or drained: what runs there runs on, nothing new starts."""
    bad_devices: frozenset[int] = field(default=frozenset())
    gpu_model: str = ""
    message: str = ""
    """Why not all of it may be used, for messages; empty when all may be."""


def plain(value: Any) -> Any:
    """Return a value of this interface as plain data, as `asdict` does, which also copies what nobody can change."""
    kind: Any = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is tuple:
        return tuple([plain(each) for each in value])
    names = _names(kind)
    return {name: plain(getattr(value, name)) for name in names} if names else value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple([each.name for each in fields(kind)]) if is_dataclass(kind) else ()
