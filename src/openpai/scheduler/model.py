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
    """Who is behind it, for the sentences people read: `user~job`."""
    sku_type: str | None = None
    pinned_cell: str | None = None
    is_lazily_preemptible: bool = False


class Spot(NamedTuple):
    """Where one member runs: a node, and which of its devices."""

    node: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Every member of a gang has its spot; `spots` is in the order of the gang's asks."""

    gang: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """`gang` could run if these gangs left; they have less right to what they hold."""

    gang: str
    victims: tuple[str, ...]
    why: str


Decision = Place | Preempt


class Why(StrEnum):
    """Why a gang waits."""

    NO_NODE = "NO_NODE"
    NOT_ENOUGH_FREE = "NOT_ENOUGH_FREE"
    FRAGMENTED = "FRAGMENTED"
    UNHEALTHY_NODES = "UNHEALTHY_NODES"
    BEHIND_OLDER_JOB = "BEHIND_OLDER_JOB"
    BEHIND_HIGHER_PRIORITY = "BEHIND_HIGHER_PRIORITY"
    BACKING_OFF = "BACKING_OFF"
    NOT_YET_LOOKED_AT = "NOT_YET_LOOKED_AT"


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a gang waits, in words its owner understands, and what would change it."""

    gang: str
    code: Why
    told: str
    unblock: str = ""
    ahead: tuple[str, ...] = ()
    """`user~job` of the gangs that go first, nearest first, at most a handful."""
    position: int = 0
    """Place in the queue, counted from 1; 0 for a gang that lets others pass because it never fits."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine's capacity, and what of it may be used."""

    name: str
    cpus: int
    memory_mb: int
    gpus: int
    is_schedulable: bool = True
    bad_devices: frozenset[int] = field(default=frozenset())
