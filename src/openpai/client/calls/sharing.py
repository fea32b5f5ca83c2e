"""How machines are shared: virtual clusters, what they were promised, nodes out of service, and places in the queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import httpx

from openpai.client import model
from openpai.client.calls.naming import Naming, segment
from openpai.client.calls_core import Call, as_it_came, asks, nothing, said, whole


def _vc(name: str) -> str:
    return f"/virtual-clusters/{segment(name, 'a virtual cluster')}"


def _node(name: str) -> str:
    return f"/nodes/{segment(name, 'a node')}"


def _by_name(response: httpx.Response) -> tuple[model.VirtualCluster, ...]:
    return tuple(model.VirtualCluster.read(document, name=name) for name, document in response.json().items())


class Sharing(Naming):
    """Who is promised what, and who goes first."""

    @asks
    def virtual_clusters(self) -> Call[tuple[model.VirtualCluster, ...]]:
        """Return every virtual cluster, by name."""
        return Call("GET", "/virtual-clusters", _by_name)

    @asks
    def virtual_cluster(self, name: str) -> Call[model.VirtualCluster]:
        """Return one virtual cluster."""
        return Call("GET", _vc(name), whole(lambda document: model.VirtualCluster.read(document, name=name)))

    @asks
    def promise(self, name: str, promise: str) -> Call[model.ClusterConfig]:
        """Promise a virtual cluster something, such as `3 nodes`; it is made if it is new."""
        return Call("PUT", _vc(name), whole(model.ClusterConfig.read), json={"promise": promise})

    @asks
    def remove_virtual_cluster(self, name: str) -> Call[model.ClusterConfig]:
        """Remove a virtual cluster that no job uses."""
        return Call("DELETE", _vc(name), whole(model.ClusterConfig.read))

    @asks
    def sku_types(self, virtual_cluster: str | None = None) -> Call[Mapping[str, Any]]:
        """Return the kinds of hardware and what one device of each brings along."""
        return Call("GET", "/cluster/sku-types", as_it_came, said(vc=virtual_cluster))

    @asks
    def cluster_config(self) -> Call[model.ClusterConfig]:
        """Return what was promised to whom."""
        return Call("GET", "/cluster/config", whole(model.ClusterConfig.read))

    @asks
    def configure(
        self, *, promises: str | None = None, hived: str | None = None, version: int | None = None
    ) -> Call[model.ClusterConfig]:
        """Replace the promises, in words or in HiveD's format; running jobs are not stopped."""
        message = {"promises": promises, "hived": hived, "version": version}
        body = {key: value for key, value in message.items() if value is not None}
        # With a version a second try would be refused although the first one was granted.
        return Call("PUT", "/cluster/config", whole(model.ClusterConfig.read), json=body, is_repeatable=version is None)

    @asks
    def inspect(self, what: str = "clusterstatus") -> Call[Any]:
        """Return cells or gangs in HiveD's shape: `clusterstatus`, `affinitygroups` and what lies below them."""
        return Call("GET", f"/scheduler/inspect/{what}", as_it_came)

    @asks
    def scheduler_snapshot(self) -> Call[Mapping[str, Any]]:
        """Return the scheduler's whole state; for administrators."""
        return Call("GET", "/scheduler/snapshot", as_it_came)

    @asks
    def fairness(self) -> Call[Mapping[str, Any]]:
        """Return how long what a user has used counts against them: `halfLifeHours`, None when it does not."""
        return Call("GET", "/scheduler/fairness", as_it_came)

    @asks
    def set_fairness(self, half_life_hours: float | None) -> Call[Mapping[str, Any]]:
        """Set how long what a user has used counts against them."""
        return Call("PUT", "/scheduler/fairness", as_it_came, json={"halfLifeHours": half_life_hours})

    @asks
    def orders(self) -> Call[Mapping[str, Any]]:
        """Return who goes first among equally urgent jobs, by virtual cluster; `fair` where none is named."""
        return Call("GET", "/scheduler/orders", as_it_came)

    @asks
    def set_orders(self, orders: Mapping[str, str], version: int | None = None) -> Call[Mapping[str, Any]]:
        """Set who goes first in which virtual cluster: `fair`, `fifo` or `shortest`."""
        body = {"orders": dict(orders)} | ({} if version is None else {"version": version})
        return Call("PUT", "/scheduler/orders", as_it_came, json=body, is_repeatable=version is None)

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
        return Call("PUT", _node(name), whole(model.NodeView.read), json=body)

    @asks
    def forget_node(self, name: str) -> Call[None]:
        """Forget a node that is gone for good."""
        return Call("DELETE", _node(name), nothing)

    @asks
    def set_priority(self, name: str, priority_class: str) -> Call[None]:
        """Change a job's priority class: crit, prod, test or oppo."""
        return Call("PUT", f"{self.path(name)}/priority", nothing, json={"value": priority_class})

    @asks
    def move(self, name: str, rank: int | str) -> Call[None]:
        """Move a waiting job among equally urgent ones: `front`, `back`, or a rank, of which the higher goes first."""
        return Call("PUT", f"{self.path(name)}/rank", nothing, json={"value": rank})

    @asks
    def checkpointed(self, name: str) -> Call[None]:
        """Say that a job has just saved its work."""
        return Call("POST", f"{self.path(name)}/checkpoint", nothing, is_repeatable=True)
