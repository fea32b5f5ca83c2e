"""Gets whole nodes for gangs that need them: one node is left to drain, and a free one goes to them sooner.

Small gangs take any place that gets free. Once they have taken a whole node, it is free again only when the last of
them has left, which is long after most of them have. So where whole nodes are waited for, gangs that need less than a
node take the one that should be free soonest only if no other node in use has room. And a gang of whole nodes counts
as submitted earlier by the time that it would wait for the next node in use to be free, for each node it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from openpai.scheduler.cells.chain import Unit, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.model import Gang
from openpai.scheduler.queue.backfill import AGAIN, AGAIN_MIN_MS
from openpai.scheduler.queue.requests import GangRequests

AllLeft = Callable[[Sequence[str], int | None], int | None]
"""Returns when all requests with these names have left with an even chance.

None if some of them do not run, or if that is later than a time that is given.
"""


class NodeInUse(NamedTuple):
    """A node in use, and when all of it should be free."""

    free_ms: int
    chain: str
    number: int
    """The number of its unit in the share of its virtual cluster."""


@dataclass(slots=True)
class Drain:
    """The node that is left to drain in one virtual cluster."""

    chain: str
    number: int | None
    """The number of its unit; None if no node is in use."""
    again_ms: int
    """When it is chosen again, if it is not free before."""
    ahead_ms: int = 0
    """By how much gangs count as submitted earlier for each whole node that they need."""


class Drains:
    """The nodes that are left to drain."""

    def __init__(self, cluster: Cluster) -> None:
        self.of: dict[str, Drain] = {}
        """By virtual cluster in which gangs of whole nodes wait."""
        self._cluster = cluster
        self._sizes: Mapping[str, Container[int]] = _node_sizes(cluster)

    def start_over(self, cluster: Cluster) -> None:
        """Forget all of them: the configuration has changed."""
        for name in list(self.of):
            self.set(name, None)
        self._cluster, self._sizes = cluster, _node_sizes(cluster)

    def whole_nodes(self, gang: Gang, requests: GangRequests) -> int:
        """Return how many whole nodes a gang needs of what its virtual cluster was promised, pinned cells excepted."""
        sizes = self._sizes.get(gang.virtual_cluster, ()) if gang.priority >= 0 else ()
        found = 0
        for request in requests:
            for count, devices in request.members:
                if devices in sizes and request.pinned_cell is None:
                    found += count
        return found

    def ahead_ms(self, name: str) -> int:
        """Return by how much gangs count as submitted earlier for each whole node that they need."""
        drain = self.of.get(name)
        return 0 if drain is None else drain.ahead_ms

    def set(self, name: str, drain: Drain | None) -> None:
        """Replace the node that is left to drain in a virtual cluster."""
        if drain is None:
            self.of.pop(name, None)
        else:
            self.of[name] = drain
        for chain, share in self._cluster.shares.get(name, {}).items():
            number = drain.number if drain is not None and drain.chain == chain else None
            share.draining = 0 if number is None else 1 << number

    def update(self, name: str, now_ms: int, all_left: AllLeft, has_smaller: Callable[[str], bool]) -> None:
        """Choose the node again if that is due, and estimate when nodes are free if there is one to decide about.

        `has_smaller` returns whether gangs of a virtual cluster wait that need no whole node.
        """
        shares, drain = self._cluster.shares[name], self.of.get(name)
        has_choice = _has_free_node(shares) and has_smaller(name)
        is_current = drain is not None and now_ms < drain.again_ms and _is_in_use(drain, shares[drain.chain])
        if is_current and not has_choice:
            return
        first = _first_free(shares, drain, all_left)
        if drain is None or not is_current:
            free_ms, chain, number = first or (now_ms, next(iter(shares)), None)
            again_ms = now_ms + (max(AGAIN_MIN_MS, (free_ms - now_ms) // AGAIN) if first else 0)
            drain = Drain(chain, number, again_ms, self.ahead_ms(name))
            self.set(name, drain)
        if has_choice:
            drain.ahead_ms = max(0, first.free_ms - now_ms) if first else 0

    def dump(self) -> dict[str, Any]:
        """Return them as plain data."""
        return {name: list(astuple(drain)) for name, drain in sorted(self.of.items())}

    def load(self, data: Mapping[str, Any]) -> None:
        """Restore the result of `dump`."""
        for name, row in data.items():
            self.set(name, Drain(*row))


def _node_sizes(cluster: Cluster) -> dict[str, frozenset[int]]:
    """Return how many devices the nodes have of which some were promised, by virtual cluster."""
    return {name: frozenset(share.chain.shape.leaves for share in own.values()) for name, own in cluster.shares.items()}


def _has_free_node(shares: Mapping[str, VcShare]) -> bool:
    for share in shares.values():
        node = share.chain.node_level
        units = share.unit_indexes.get(node)
        if (units is not None and units.present & units.whole) or any(share.unserved[node - 1 :]):
            return True
    return False


def _is_in_use(drain: Drain, share: VcShare) -> bool:
    units = share.unit_indexes.get(share.chain.node_level)
    unit = None if units is None or drain.number is None else units.units.get(drain.number)
    return unit is not None and bool(unit.node_cell.claims) and not unit.node_cell.bad


def _first_free(shares: Mapping[str, VcShare], drain: Drain | None, all_left: AllLeft) -> NodeInUse | None:
    """Return the node in use that should be free soonest, of those that are not bad or reserved; None without one.

    The node that drains is asked about first: a gang that leaves later than it does rules out its own node, and the
    others on that node are not asked about.
    """
    found: NodeInUse | None = None
    for chain, share in shares.items():
        index = share.unit_indexes.get(share.chain.node_level)
        units = {} if index is None else index.units
        draining = drain.number if drain is not None and drain.chain == chain else None
        for number in sorted(units, key=lambda number: number != draining):
            free_ms = _free_ms(units[number], all_left, None if found is None else found.free_ms)
            if free_ms is not None:
                node = NodeInUse(free_ms, chain, number)
                found = node if found is None else min(found, node)
    return found


def _free_ms(unit: Unit, all_left: AllLeft, latest_ms: int | None) -> int | None:
    node_cell = unit.node_cell
    return all_left(tuple(node_cell.claims), latest_ms) if node_cell.claims and not node_cell.bad else None
