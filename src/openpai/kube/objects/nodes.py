"""Nodes and the leases that show that they live."""

from __future__ import annotations

from datetime import datetime

from openpai.kube.objects.meta import Condition, Part, Resource


class Taint(Part, frozen=True, kw_only=True):
    """What keeps pods away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part, frozen=True, kw_only=True):
    """A node, as it is wanted."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeAddress(Part, frozen=True, kw_only=True):
    """An address of a node."""

    type: str = ""
    """InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS."""
    address: str = ""


class NodeInfo(Part, frozen=True, kw_only=True):
    """What runs on a node."""

    kubelet_version: str = ""


class NodeCondition(Condition, frozen=True, kw_only=True):
    """A condition of a node, with its times by the clock of the node."""

    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class NodeStatus(Part, frozen=True, kw_only=True):
    """A node, as its kubelet sees it."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[NodeCondition] = []
    addresses: list[NodeAddress] = []
    node_info: NodeInfo = NodeInfo()

    def condition(self, kind: str) -> NodeCondition | None:
        """Return a condition by its type."""
        return next((found for found in self.conditions if found.type == kind), None)


class Node(Resource, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Return whether the kubelet reports the node as ready."""
        ready = self.status.condition("Ready")
        return ready is not None and ready.status == "True"

    def address(self, kind: str) -> str:
        """Return the first address of a type; empty if it has none."""
        return next((found.address for found in self.status.addresses if found.type == kind), "")


class LeaseSpec(Part, frozen=True, kw_only=True):
    """The holder of a lease, and for how long without renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    """Stamped by the holder's clock: compare it for equality only, and measure its age yourself; a renewal that arrives
    shows by how much the clocks differ."""
    lease_transitions: int | None = None


class Lease(Resource, frozen=True, kw_only=True):
    """A lease: of a node, in the namespace kube-node-lease, or of a leader."""

    spec: LeaseSpec = LeaseSpec()
