"""Nodes: the machines that run jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, listed, nothing, whole


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
        """Drain a node or give it back, or say which of its GPUs are bad; nothing is stopped for it.

        With `deadline_s`, jobs that run after so many seconds on a node that is drained are put back into the queue.
        """
        devices = None if bad_devices is None else sorted(bad_devices)
        message: dict[str, Any] = {"drained": is_drained, "badDevices": devices, "reason": reason}
        message["deadlineSeconds"] = None if deadline_s is None else round(deadline_s)
        body = {key: value for key, value in message.items() if value is not None}
        return Call("PUT", f"/nodes/{segment(name, 'a node')}", whole(model.NodeView.read), json=body)

    @asks
    def forget_node(self, name: str) -> Call[None]:
        """Forget a node that is gone for good."""
        return Call("DELETE", f"/nodes/{segment(name, 'a node')}", nothing)
