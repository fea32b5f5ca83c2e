"""Nodes and running tasks in the form of Kubernetes lists, for tools that read OpenPAI's.

No Kubernetes is needed: a node becomes a Node, and a task attempt that holds resources becomes a Pod with the labels of
OpenPAI's pods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.api.shapes.exits import CONTAINER
from openpai.lifecycle.model import TaskPhase
from openpai.ports.platform import NodeView
from openpai.ports.queries import JobRow, TaskAttemptRow
from openpai.protocol.times import kubernetes_time
from openpai.wire.kubernetes import KubernetesList

NAMESPACE: Final = "default"
_GPU: Final = "nvidia.com/gpu"
_PHASES: Final = {TaskPhase.RUNNING: "Running"}


def node_list(views: Iterable[NodeView]) -> KubernetesList:
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [_node(view) for view in views]}


POD_LIST: Final[dict[str, Any]] = {"kind": "PodList", "apiVersion": "v1", "metadata": {}}


def pod(of: tuple[JobRow, TaskAttemptRow], wanted: Mapping[str, str | None]) -> dict[str, Any] | None:
    """Return a task attempt as an item of a PodList; None if it lacks a requested label (None: any value)."""
    found = _pod(*of)
    labels = found["metadata"]["labels"]
    return found if all(name in labels and value in (None, labels[name]) for name, value in wanted.items()) else None


def _node(view: NodeView) -> dict[str, Any]:
    total = {"cpu": str(view.cpus_total), "memory": f"{view.memory_mb_total}Mi", _GPU: str(view.gpus_total)}
    healthy_gpus = max(view.gpus_total - len(view.bad_devices), 0)
    ready = {
        "type": "Ready",
        "status": "True" if view.is_healthy else "False",
        "reason": "KubeletReady" if view.is_healthy else "NodeNotReady",
        "message": view.message,
    }
    return {
        "metadata": {
            "name": view.name,
            "uid": hashlib.sha256(view.name.encode()).hexdigest()[:32],
            "labels": {"kubernetes.io/hostname": view.name, "pai-worker": "true"},
            "annotations": {"openpai/drained-because": view.drained_because} if view.is_drained else {},
        },
        "spec": {"unschedulable": True} if view.is_drained else {},
        "status": {
            "capacity": total,
            "allocatable": {**total, _GPU: str(healthy_gpus)},
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": view.address},
                {"type": "Hostname", "address": view.name},
            ],
            "nodeInfo": {},
        },
    }


def _pod(job: JobRow, row: TaskAttemptRow) -> dict[str, Any]:
    key, slot = row.key, row.slot
    gpus = len(slot.devices) if slot else 0
    limits = {"cpu": str(slot.cpus), "memory": f"{slot.memory_mb}Mi", _GPU: str(gpus)} if slot else {}
    phase = _PHASES.get(TaskPhase(row.phase), "Pending")
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
        "hostIP": slot.address if slot else None,
        "podIP": slot.address if slot else None,
        "startTime": kubernetes_time(row.started_at_ms),
    }
    return {
        "metadata": {
            "name": f"{job.id}-{key.role.lower()}-{key.index}",
            "namespace": NAMESPACE,
            "uid": key.path(),
            "creationTimestamp": kubernetes_time(row.granted_at_ms),
            "labels": {
                "type": "kube-launcher-task",
                "userName": job.user,
                "jobName": job.full_name,
                "virtualCluster": job.virtual_cluster,
                "FC_FRAMEWORK_NAME": job.id,
                "FC_TASKROLE_NAME": key.role,
                "FC_TASK_INDEX": str(key.index),
            },
            "annotations": {
                "FC_FRAMEWORK_ATTEMPT_ID": str(key.job_attempt),
                "FC_TASK_ATTEMPT_ID": str(key.task_attempt),
                "rest-server/gpu-numbers": ",".join(map(str, slot.devices)) if slot else "",
            },
        },
        "spec": {
            "nodeName": slot.node if slot else None,
            "hostNetwork": True,
            "containers": [{"name": CONTAINER, "resources": {"limits": limits, "requests": limits}}],
        },
        "status": status,
    }
