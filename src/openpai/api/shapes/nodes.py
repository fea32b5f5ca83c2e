"""Machines and reasons for waiting, as the API tells them."""

from __future__ import annotations

from openpai.api.shapes.exits import Document
from openpai.ports.platform import NodeView
from openpai.scheduler.model import Estimate, Wait


def node(view: NodeView) -> Document:
    """Return one machine and how much of it is in use."""
    return {
        "name": view.name,
        "address": view.address,
        "healthy": view.is_healthy,
        "told": view.told,
        "drained": view.is_drained,
        "drainedBecause": view.drained_because,
        "gpuModel": view.gpu_model,
        "cpus": {"total": view.cpus_total, "used": view.cpus_used},
        "memoryMB": {"total": view.memory_mb_total, "used": view.memory_mb_used},
        "gpus": {"total": view.gpus_total, "used": view.gpus_used},
        "badDevices": view.bad_devices,
        "badBecause": view.bad_because,
        "tasks": view.tasks,
        "virtualClusters": view.virtual_clusters,
    }


def node_gpus(view: NodeView) -> Document:
    """Return a machine's GPUs in OpenPAI's shape; what nobody can be given is not available."""
    is_open = view.is_healthy and not view.is_drained
    free = view.gpus_total - view.gpus_used - len(view.bad_devices)
    return {"gpuUsed": view.gpus_used, "gpuAvailable": max(0, free) if is_open else 0, "gpuTotal": view.gpus_total}


def wait(view: Wait) -> Document:
    """Return one reason for waiting."""
    return {
        "code": view.code.value,
        "told": view.told,
        "unblock": view.unblock,
        "ahead": view.ahead,
        "position": view.position,
        "estimate": None if view.estimate is None else _estimate(view.estimate),
    }


def _estimate(view: Estimate) -> Document:
    return {"earliestTime": view.earliest_ms, "latestTime": view.latest_ms, "basis": view.basis}
