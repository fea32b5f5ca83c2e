"""Machines."""

from __future__ import annotations

from openpai.client import model
from openpai.client.asking import Call, asks, listed


class Nodes:
    """The machines that run jobs."""

    @asks
    def nodes(self) -> Call[tuple[model.NodeView, ...]]:
        """Return every machine, by name."""
        return Call("GET", "/nodes", listed(model.NodeView.read))
