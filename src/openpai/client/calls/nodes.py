"""Machines."""

from __future__ import annotations

from openpai.client.asking import Call, asks, listed
from openpai.client.model.nodes import NodeView


class Nodes:
    """The machines that run jobs."""

    @asks
    def nodes(self) -> Call[tuple[NodeView, ...]]:
        """Return every machine, by name."""
        return Call("GET", "/nodes", listed(NodeView.read))
