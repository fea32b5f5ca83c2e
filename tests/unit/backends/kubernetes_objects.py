"""Short ways to write Kubernetes objects as the API sends them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from openpai.backends.kubernetes.nodes import NodeTable
from openpai.kube.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from openpai.kube.objects.kinds import DEVICE_TAINT_RULES, LEASES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from openpai.kube.objects.meta import Resource
from openpai.kube.objects.nodes import Lease, Node
from openpai.kube.objects.pods import Pod
from openpai.ports.backend import NodeSeen


def is_ours(thing: Resource) -> bool:
    return thing.metadata.label("owner") == "us"


READY = {"type": "Ready", "status": "True"}


def node(
    name: str = "n1",
    *,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    conditions: list[dict[str, str]] | None = None,
    cordoned: bool = False,
    capacity: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
) -> Node:
    have = {"cpu": "8", "memory": "16Gi", "pods": "110", **(capacity or {})}
    document = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"unschedulable": cordoned, "taints": taints or []},
        "status": {
            "capacity": have,
            "allocatable": {**have, **(allocatable or {})},
            "conditions": [READY] if conditions is None else conditions,
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    return NODES.decoder.decode(json.dumps(document))


def lease(name: str = "n1", second: int = 0, duration: int | None = 40, holder: str = "") -> Lease:
    spec = {"renewTime": datetime(2020, 1, 1, 0, 0, second, tzinfo=UTC).isoformat(), "holderIdentity": holder or name}
    if duration is not None:
        spec["leaseDurationSeconds"] = duration  # type: ignore[assignment]
    return LEASES.decoder.decode(json.dumps({"metadata": {"name": name}, "spec": spec}))


def pod(
    uid: str = "p1", spec: dict[str, Any] | None = None, *, node: str = "n1", phase: str = "Running", **labels: str
) -> Pod:
    document = {
        "metadata": {"name": uid, "namespace": "others", "uid": uid, "labels": labels},
        "spec": {"nodeName": node, **(spec or {})},
        "status": {"phase": phase},
    }
    return PODS.decoder.decode(json.dumps(document))


def asking(**requests: str) -> dict[str, Any]:
    """Return the spec of a pod of one container with these requests; `gpu` stands for nvidia.com/gpu."""
    named = {"nvidia.com/gpu" if name == "gpu" else name: value for name, value in requests.items()}
    return {"containers": [{"name": "main", "resources": {"requests": named}}]}


def device(name: str, uuid: str = "", bus: str = "", **more: Any) -> dict[str, Any]:
    attributes = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100"}}
    if uuid:
        attributes["uuid"] = {"string": uuid}
    if bus:
        attributes["resource.kubernetes.io/pciBusID"] = {"string": bus}
    return {"name": name, "attributes": {**attributes, **more.pop("attributes", {})}, **more}


def resource_slice(
    devices: list[dict[str, Any]],
    *,
    name: str = "s1",
    node: str = "n1",
    driver: str = "gpu.nvidia.com",
    generation: int = 1,
    of: int = 1,
) -> ResourceSlice:
    pool = {"name": node, "generation": generation, "resourceSliceCount": of}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    return RESOURCE_SLICES.decoder.decode(json.dumps({"metadata": {"name": name, "uid": name}, "spec": spec}))


def claim(uid: str, *devices: str, node: str = "n1", driver: str = "gpu.nvidia.com", **labels: str) -> ResourceClaim:
    results = [{"request": "r", "driver": driver, "pool": node, "device": name} for name in devices]
    document = {
        "metadata": {"name": uid, "namespace": "others", "uid": uid, "labels": labels},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }
    return RESOURCE_CLAIMS.decoder.decode(json.dumps(document))


def taint_rule(name: str, selector: dict[str, str] | None, effect: str = "NoSchedule") -> DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "xid", "value": "79", "effect": effect}}
    return DEVICE_TAINT_RULES.decoder.decode(json.dumps({"metadata": {"name": name}, "spec": spec}))


def table(**options: Any) -> NodeTable:
    """Return an empty table of nodes on which what is `is_ours` belongs to the platform."""
    return NodeTable(is_ours, **options)


def only(nodes: NodeTable) -> NodeSeen:
    """Return the one node of a table."""
    (seen,) = nodes.seen()
    return seen
