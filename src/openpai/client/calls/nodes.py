"""Nodes: the machines that run jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, as_it_came, asks, given, listed, nothing, whole


class Nodes:
    """The nodes of the cluster."""

    @asks
    def nodes(self) -> Call[tuple[model.NodeView, ...]]:
        """Return every node, by name."""
        return Call("GET", "/nodes", listed(model.NodeView.read))

    @asks
    def node(self, name: str) -> Call[model.NodeDetail]:
        """Return one node with the jobs on it and, for administrators, the changes made to it."""
        return Call("GET", f"/nodes/{segment(name, 'a node')}", whole(model.NodeDetail.read))

    @asks
    def change_node(
        self,
        name: str,
        *,
        is_drained: bool | None = None,
        bad_devices: Collection[int] | None = None,
        reason: str = "",
        deadline_s: float | None = None,
    ) -> Call[model.NodeView]:
        """Drain a node or put it back into service, or mark its bad GPUs; running tasks continue.

        With `deadline_s`, jobs that still run on a drained node after that time are put back into the queue.
        """
        devices = None if bad_devices is None else sorted(bad_devices)
        within_s = None if deadline_s is None else round(deadline_s)
        body = given(drained=is_drained, badDevices=devices, reason=reason, deadlineSeconds=within_s)
        return Call("PUT", f"/nodes/{segment(name, 'a node')}", whole(model.NodeView.read), json=body)

    @asks
    def lemons(self) -> Call[Mapping[str, Any]]:
        """Return the score (`threshold`) at which a node that fails jobs of several users is drained; 0 for never."""
        return Call("GET", "/lemons", as_it_came)

    @asks
    def set_lemons(self, threshold: float) -> Call[Mapping[str, Any]]:
        """Set the score at which a node that fails the jobs of several users is drained; 0 for never."""
        return Call("PUT", "/lemons", as_it_came, json={"threshold": threshold})

    @asks
    def forget_node(self, name: str) -> Call[None]:
        """Forget a node that no longer exists."""
        return Call("DELETE", f"/nodes/{segment(name, 'a node')}", nothing)
