"""Documents of nodes and of what jobs hold on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openpai.ports.backend import NodeCheck
from openpai.ports.platform import Holding, NodeView
from openpai.wire import nodes as wire
from openpai.wire.virtual_clusters import NodeGpus


def node(view: NodeView, measured: Mapping[int, float] = {}) -> wire.Node:
    """Return one node and how much of it is in use; `measured` has temperatures of GPUs that no task has."""
    return {
        "name": view.name,
        "address": view.address,
        "healthy": view.is_healthy,
        "message": view.message,
        "drained": view.is_drained,
        "drainedBecause": view.drained_because,
        "drainDeadline": view.deadline_ms,
        "gpuModel": view.gpu_model,
        "cpus": {"total": view.cpus_total, "used": view.cpus_used},
        "memoryMB": {"total": view.memory_mb_total, "used": view.memory_mb_used},
        "gpus": {"total": view.gpus_total, "used": view.gpus_used},
        "badDevices": view.bad_devices,
        "badBecause": view.bad_because,
        "tasks": view.tasks,
        "virtualClusters": view.virtual_clusters,
        "temperatures": {
            str(number): round(value, 1) for number, value in sorted({**measured, **view.temperatures_c}.items())
        },
        "lemonScore": view.lemon_score,
        "lemonUsers": view.lemon_users,
    }


def node_check(found: NodeCheck) -> wire.NodeCheck:
    return {
        "name": found.name,
        "result": found.result,
        "message": found.message,
        "sinceTime": found.since_ms,
        "checkedTime": found.checked_ms,
    }


def holding(of: Holding) -> wire.Holding:
    return {
        "job": f"{of.user}~{of.name}",
        "virtualCluster": of.virtual_cluster,
        "tasks": of.tasks,
        "gpus": of.gpus,
        "cpus": of.cpus,
        "memoryMB": of.memory_mb,
        "devices": of.devices,
        "startedTime": of.since_ms,
        "endsTime": of.ends_ms,
        "ending": of.is_ending,
    }


def held(shown: Sequence[Holding], others: Sequence[Holding]) -> wire.Holdings:
    """Return what jobs hold, and for jobs that the reader may not see only the sums."""
    return {
        "jobs": [holding(one) for one in shown],
        "others": {
            "jobs": len(others),
            "tasks": sum(one.tasks for one in others),
            "gpus": sum(one.gpus for one in others),
            "cpus": sum(one.cpus for one in others),
        },
    }


def node_gpus(view: NodeView) -> NodeGpus:
    """Return a node's GPUs in OpenPAI's shape; bad GPUs and those of closed nodes are not available."""
    is_open = view.is_healthy and not view.is_drained
    free = view.gpus_total - view.gpus_used - len(view.bad_devices)
    return {"gpuUsed": view.gpus_used, "gpuAvailable": max(0, free) if is_open else 0, "gpuTotal": view.gpus_total}
