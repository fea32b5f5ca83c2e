"""The scheduler's interface, kept stable while the code behind it changes.

It keeps its state in memory, changes it only on a fact, and can be rebuilt by repeating the facts. It is
deterministic: the same history gives the same answers. A decision is a proposal: its devices are set aside until the
caller commits or rejects it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from openpai.scheduler.model import Accuracy, Decision, Gang, Node, Order, Refusal, Spot, Wait
from openpai.wire.scheduler import ClusterCells
from openpai.wire.scheduler import Gang as AffinityGroup

UNKNOWN: Final = Accuracy()


@dataclass(frozen=True, slots=True)
class Amount:
    """Resources: whole devices with their shares of the nodes."""

    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpus + other.cpus, self.memory_mb + other.memory_mb, self.gpus + other.gpus)


@dataclass(frozen=True, slots=True)
class Lending:
    """Resources that are used without a guarantee at this moment."""

    lent: Mapping[str, Mapping[str, Amount]]
    """By virtual cluster, what it lends to each other one."""
    borrowed: Mapping[tuple[str, str], Amount]
    """By virtual cluster and user, what their jobs use without a guarantee."""


@dataclass(frozen=True, slots=True)
class VcView:
    """The present state of a virtual cluster."""

    name: str
    total: Amount
    """The promise, bad hardware included."""
    guaranteed: Amount
    """The healthy part of it."""
    used: Amount
    """What its jobs with a guarantee use."""
    borrowed: Amount
    """What its opportunistic jobs use in addition."""
    skus: Mapping[str, int]
    """Devices promised, by SKU type."""
    running: int
    """The number of gangs that hold devices."""
    waiting: int
    lent_to: Mapping[str, Amount] = field(default_factory=dict)
    """By virtual cluster, the part of its promise that jobs there use without a guarantee; it may take it back."""
    order: Order = Order.FAIR
    accuracy: Accuracy = UNKNOWN
    is_interruptible: bool = False
    """Whether its jobs may be interrupted unless they say otherwise."""
    moves_jobs: bool = False
    """Whether its interruptible jobs may be moved to make whole cells for its other jobs."""
    moves: int = 0
    """How many jobs were moved so since this scheduler began."""
    moved_gpu_hours: float = 0.0
    """The work that these jobs must do again."""

    @property
    def lent(self) -> Amount:
        """Return what it lends in all."""
        return sum(self.lent_to.values(), Amount())


class Inspection(ClusterCells):
    """Cells and gangs in HiveD's own shapes."""

    affinityGroups: Sequence[AffinityGroup]  # noqa: N815  HiveD's name


class Scheduler(Protocol):
    """Decides which gang runs where, and why the others wait."""

    def set_node(self, node: Node) -> None:
        """Add or change a node. Gangs that run on it keep their spots."""
        ...

    def remove_node(self, name: str) -> None:
        """Remove a node for good. Gangs that run on it keep their spots until released."""
        ...

    def refusal(self, gang: Gang, usable: Collection[str] | None = None) -> Refusal | None:
        """Return why `gang` could not run even if everything were free, or None. Changes nothing.

        `usable` names the virtual clusters that may be recommended instead; None means all of them.
        """
        ...

    def add(self, gang: Gang) -> None:
        """Add a gang to the queue. Adding one that waits or runs changes nothing."""
        ...

    def restore(self, gang: Gang, spots: Iterable[Spot | None], since_ms: int | None = None) -> None:
        """Add a gang that already runs, as after a restart; a spot is None for a member that is over."""
        ...

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, the most urgent first. Each stays proposed until committed or rejected."""
        ...

    def look_again_ms(self) -> int | None:
        """Return when a decision may be due although nothing is reported by then; None for never."""
        ...

    def commit(self, gang: str) -> None:
        """Commit the placement proposed for `gang`."""
        ...

    def reject(self, gang: str) -> None:
        """Drop the placement proposed for `gang`, which waits again at its place in the queue."""
        ...

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """Free the spots of these members (all when None). A gang without spots is forgotten."""
        ...

    def cancel(self, gang: str) -> None:
        """Remove a waiting gang. Unknown gangs are ignored."""
        ...

    def why(self, gang: str) -> Wait | None:
        """Return why a gang waits; None when it does not."""
        ...
