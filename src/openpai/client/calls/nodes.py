"""Machines."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, listed, whole


class Nodes:
    """The machines that run jobs."""

    @asks
    def nodes(self) -> Call[tuple[model.NodeView, ...]]:
        """Return every machine, by name."""
        return Call("GET", "/nodes", listed(model.NodeView.read))

    @asks
    def node(self, name: str) -> Call[model.NodeDetail]:
        """Return one machine with the jobs on it; administrators also hear what was done to it."""
        return Call("GET", f"/nodes/{segment(name, 'a node')}", whole(model.NodeDetail.read))
