"""The scheduler's interface, kept stable while the code behind it changes.

It keeps its state in memory, changes it only on a fact, and can be rebuilt by repeating the facts. It is
deterministic: the same history gives the same answers. A decision is a proposal: what it promises is set aside
until the caller commits or rejects it, and nothing else in the world has changed meanwhile.
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
    """Resources: whole devices with what they bring along."""

    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class VcView:
    """A virtual cluster as it is now."""

    name: str
    total: Amount
    """What it was promised, bad hardware included."""
    guaranteed: Amount
    """What of it is healthy."""
    used: Amount
    """What its jobs with a guarantee hold."""
    borrowed: Amount
    """What its opportunistic jobs hold in addition."""
    skus: Mapping[str, int]
    """Devices promised, by SKU type."""
    running: int
    """Gangs that hold something."""
    waiting: int


class Inspection(ClusterCells):
    """Cells and gangs in HiveD's own shapes."""

    affinityGroups: Sequence[AffinityGroup]  # noqa: N815  HiveD's name


class Configured(Protocol):
    """What a new configuration changed for running gangs, none of which was stopped."""

    @property
    def demoted(self) -> Sequence[str]:
        """Return the gangs that run on without a guarantee."""
        ...


class Scheduler(Protocol):
    """Decides which gang runs where, and says why the others wait."""

    def set_node(self, node: Node) -> None:
        """Learn of a node, or that it changed. Gangs that run on it keep their spots."""
        ...

    def remove_node(self, name: str) -> None:
        """Learn that a node is gone for good. Gangs that run on it keep their spots until released."""
        ...

    def refusal(self, gang: Gang, usable: Collection[str] | None = None) -> Refusal | None:
        """Return why `gang` could not run even if everything were free, or None. Changes nothing.

        `usable` names the virtual clusters that may be recommended instead; None means all of them.
        """
        ...

    def add(self, gang: Gang) -> None:
        """Let a gang wait. Adding one that waits or runs changes nothing."""
        ...

    def restore(self, gang: Gang, spots: Iterable[Spot | None], since_ms: int | None = None) -> None:
        """Learn that a gang already runs there since then, as after a restart; None for members that are over."""
        ...

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, the most urgent first. Each stays proposed until committed or rejected."""
        ...

    def commit(self, gang: str) -> None:
        """The placement proposed for `gang` became a fact."""
        ...

    def reject(self, gang: str) -> None:
        """The placement proposed for `gang` did not become a fact: it waits again, where it was in the queue."""
        ...

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """These members (all when None) hold their spots no longer. A gang without spots is forgotten."""
        ...

    def cancel(self, gang: str) -> None:
        """A waiting gang wants nothing any more. Unknown gangs are ignored."""
        ...

    def why(self, gang: str) -> Wait | None:
        """Return why a gang waits; None when it does not."""
        ...


class SharingScheduler(Scheduler, Protocol):
    """A scheduler that shares a cluster between virtual clusters and users: what the platform runs."""

    def change(self, gang: Gang) -> None:
        """Priority, rank, virtual cluster or time limit of a gang changed; where it runs, it runs on."""
        ...

    def checkpointed(self, gang: str, at_ms: int) -> None:
        """The gang saved its work: what it did before is not lost if it must leave."""
        ...

    def restored(self) -> None:
        """Everything that runs was restored: gangs that had no guarantee before get what the others leave."""
        ...

    def changed_hints(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by gang, the placement hints of members whose promised cells changed since the last call.

        Passed to `restore` in place of the original hints, they restore the guarantee that the gang has now.
        """
        ...

    def set_limits(self, limits: Sequence[Limit]) -> None:
        """Replace the limits of what one user may run at a time."""
        ...

    def set_fairness(self, half_life_ms: int | None) -> None:
        """Let use fade to a half in this time when users of a virtual cluster are compared; None compares no use."""
        ...

    def set_orders(self, orders: Mapping[str, Order]) -> None:
        """Replace who goes first in which virtual cluster; those that are not named have `Order.FAIR`."""
        ...

    def learn_run_time(self, gang: Gang, ran_ms: int) -> None:
        """Learn how long a gang ran that finished before this scheduler began; the latest last."""
        ...

    def learn_use(self, virtual_cluster: str, user: str, device_ms: float, at_ms: int) -> None:
        """Learn what a user used before this scheduler began, faded to `at_ms` already."""
        ...

    def reconfigure(self, config: HivedConfig) -> Configured:
        """Switch to another configuration; running gangs keep running."""
        ...

    def borrowers(self) -> frozenset[str]:
        """Return the gangs that run on what others leave free though they have a guarantee to wait for."""
        ...

    def virtual_clusters(self) -> tuple[VcView, ...]:
        """Return every virtual cluster, by name."""
        ...

    def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        """Return what one device of each type brings along; only of types a virtual cluster was promised if named."""
        ...

    def inspect(self) -> Inspection:
        """Return the cells and gangs in HiveD's own shapes: physicalCluster, virtualClusters, affinityGroups."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Return the whole state, queue included, as plain data that JSON can hold; `replaying` can go on from it."""
        ...
