"""Machines and reasons for waiting, as the API tells them."""

from __future__ import annotations

from openpai.api.shapes.exits import Document
from openpai.ports.platform import NodeView
from openpai.scheduler.model import Wait


def node(view: NodeView) -> Document:
    """Return one machine and how much of it is in use."""
    return {
        "name": view.name,
        "address": view.address,
        "healthy": view.is_healthy,
        "told": view.told,
        "gpuModel": view.gpu_model,
        "cpus": {"total": view.cpus_total, "used": view.cpus_used},
        "memoryMB": {"total": view.memory_mb_total, "used": view.memory_mb_used},
        "gpus": {"total": view.gpus_total, "used": view.gpus_used},
        "badDevices": view.bad_devices,
        "tasks": view.tasks,
    }


def wait(view: Wait) -> Document:
    """Return one reason for waiting."""
    return {
        "code": view.code.value,
        "told": view.told,
        "unblock": view.unblock,
        "ahead": view.ahead,
        "position": view.position,
    }
