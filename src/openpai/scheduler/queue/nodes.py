"""The nodes as the platform reports them, and what the core needs to know of them.

A configured node that was not reported yet counts as absent; a reported node that is not configured is remembered in
case it will be.
"""

from __future__ import annotations

from typing import Final

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.model import NodeHealth
from openpai.scheduler.model import Node
from openpai.scheduler.queue.skus import Skus

ABSENT: Final = NodeHealth(is_healthy=False)


class Machines:
    """Nodes, their SKUs, and the changes that the core does not know yet."""

    def __init__(self, cluster: Cluster, nodes: dict[str, Node] | None = None) -> None:
        self.nodes: dict[str, Node] = {}
        self.skus = Skus(cluster)
        self._cluster = cluster
        self._changes: dict[str, NodeHealth] = dict.fromkeys(cluster.node_cells, ABSENT)
        for node in (nodes or {}).values():
            self.set(node)

    def set(self, node: Node) -> None:
        """Add or change a node."""
        if self.nodes.get(node.name) == node:
            return
        self.nodes[node.name] = node
        self.skus.learn(node)
        node_cells = self._cluster.node_cells.get(node.name, ())
        if node_cells:
            bad: set[int] = set()
            for node_cell in node_cells:
                bad |= set(self.skus.devices_of(node_cell.chain.spec.leaf_type, tuple(node.bad_devices)))
            self._changes[node.name] = NodeHealth(node.is_schedulable, False, frozenset(bad))

    def resize(self) -> None:
        """Take the SKUs from the configuration once more."""
        self.skus = Skus(self._cluster)
        for node in self.nodes.values():
            self.skus.learn(node)

    def remove(self, name: str) -> None:
        """Remove a node for good."""
        self.nodes.pop(name, None)
        if name in self._cluster.node_cells:
            self._changes[name] = ABSENT

    def take_changes(self) -> dict[str, NodeHealth]:
        """Return what changed since the last call."""
        changes, self._changes = self._changes, {}
        return changes
