"""The scheduler's interface, kept stable while the code behind it changes.

It keeps its state in memory, changes it only on a fact, and can be rebuilt by repeating the facts. It is
deterministic: the same history gives the same answers. A decision is a proposal: its devices are set aside until the
caller commits or rejects it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.model import Decision, Gang, Limit, Node, Order, Refusal, Spot, Wait
from openpai.wire.scheduler import ClusterCells
from openpai.wire.scheduler import Gang as AffinityGroup


@dataclass(frozen=True, slots=True)
class Amount:
    """Resources: whole devices with their shares of the nodes."""

    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0


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


class Inspection(ClusterCells):
    """Cells and gangs in HiveD's own shapes."""

    affinityGroups: Sequence[AffinityGroup]  # noqa: N815  HiveD's name


class Configured(Protocol):
    """The effect of a new configuration on running gangs, none of which is stopped."""

    @property
    def demoted(self) -> Sequence[str]:
        """Return the gangs that run on without a guarantee."""
        ...


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


class SharingScheduler(Scheduler, Protocol):
    """A scheduler that shares a cluster between virtual clusters and users: what the platform runs."""

    def change(self, gang: Gang) -> None:
        """Change the priority, rank, virtual cluster or time limit of a gang; if it runs, it runs on."""
        ...

    def checkpointed(self, gang: str, at_ms: int) -> None:
        """Record that a gang saved its work: what it did before is not lost if it must leave."""
        ...

    def restored(self) -> None:
        """End a restore: gangs that had no guarantee before get one from what the others leave."""
        ...

    def changed_hints(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by gang, the placement hints of members whose promised cells changed since the last call.

        Passed to `restore` in place of the original hints, they restore the guarantee that the gang has now.
        """
        ...

    def set_limits(self, limits: Sequence[Limit]) -> None:
        """Replace the limits on what one user may run at a time."""
        ...

    def set_fairness(self, half_life_ms: int | None) -> None:
        """Set the half-life of use when users of a virtual cluster are compared; None ignores use."""
        ...

    def set_orders(self, orders: Mapping[str, Order]) -> None:
        """Replace the order of gangs in each virtual cluster; `Order.FAIR` where none is named."""
        ...

    def learn_run_time(self, gang: Gang, ran_ms: int) -> None:
        """Add the run time of a gang that finished before this scheduler was created; the latest last."""
        ...

    def learn_use(self, virtual_cluster: str, user: str, device_ms: float, at_ms: int) -> None:
        """Add a user's use from before this scheduler was created, decayed to `at_ms`."""
        ...

    def reconfigure(self, config: HivedConfig) -> Configured:
        """Switch to another configuration; running gangs keep running."""
        ...

    def borrowers(self) -> frozenset[str]:
        """Return the gangs that run on borrowed devices until their own virtual cluster has room."""
        ...

    def virtual_clusters(self) -> tuple[VcView, ...]:
        """Return every virtual cluster, by name."""
        ...

    def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        """Return the SKU of each device type, or only of the types that one virtual cluster was promised."""
        ...

    def inspect(self) -> Inspection:
        """Return the cells and gangs in HiveD's shapes: physicalCluster, virtualClusters, affinityGroups."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Return the whole state, queue included, as plain data that JSON can hold and `replay` can load."""
        ...
