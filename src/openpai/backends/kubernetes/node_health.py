"""Decides which nodes of a cluster are used at all, and which of them may take tasks now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from openpai.kube.objects.nodes import Node, Taint

_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_OWN_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints by which Kubernetes reports the state of a node; others say which pods the node is for."""
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
PRESSURE: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
OWN_TAINT: Final = "openpai/dedicated"
"""The taint that keeps the pods of others away from nodes that are given to us."""


@dataclass(frozen=True, slots=True)
class NodeRules:
    """Which nodes are used."""

    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that a node needs; without any, every worker is used."""
    tolerated: frozenset[str] = frozenset({OWN_TAINT})
    """Keys of taints that the tasks' pods tolerate."""
    bad_conditions: frozenset[str] = frozenset({"KernelDeadlock", "ReadonlyFilesystem"})
    """Conditions of monitoring programs that make a node bad while they are true."""


def is_worker(node: Node, rules: NodeRules) -> bool:
    """Return whether the node is for our tasks."""
    labels = node.metadata.labels or {}
    if labels.get("kubernetes.io/os", "linux") != "linux" or labels.get("type") == "virtual-kubelet":
        return False
    if rules.selector:
        return all(labels.get(name) == value for name, value in rules.selector.items())
    return not any(name in labels for name in _CONTROL_PLANE) and not any(_foreign_taints(node, rules))


def _foreign_taints(node: Node, rules: NodeRules) -> Iterator[Taint]:
    for taint in node.spec.taints:
        if taint.effect in _REPELLING and taint.key not in rules.tolerated and not taint.key.startswith(_OWN_TAINTS):
            yield taint


def is_reachable(node: Node) -> bool:
    """Return whether Kubernetes has not lost contact to the node's kubelet."""
    ready = node.status.condition("Ready")
    return ready is not None and ready.status != "Unknown"


def problems(node: Node, rules: NodeRules) -> Iterator[str]:
    """Yield why the node may not take tasks now."""
    if node.is_deleting:
        yield "it is being removed from the cluster"
    ready = node.status.condition("Ready")
    if ready is None:
        yield "its kubelet has not reported yet"
    elif ready.status != "True":
        yield f"not ready: {ready.message or ready.reason or 'its kubelet does not report'}"
    if node.spec.unschedulable:
        yield "cordoned: `kubectl uncordon` opens it"
    for condition in node.status.conditions:
        if condition.status == "True" and condition.type in (PRESSURE | rules.bad_conditions):
            yield f"{condition.type}: {condition.message or condition.reason}"
    for taint in _foreign_taints(node, rules):
        yield f"its taint {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect} is not tolerated"
    if any(taint.key == "node.kubernetes.io/out-of-service" for taint in node.spec.taints):
        yield "out of service"
