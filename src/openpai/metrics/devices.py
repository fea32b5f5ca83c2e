"""Devices of a node, with the names and labels that DCGM's exporter gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openpai.ports.task_usage import Device
from openpai.series.labels import Labels
from openpai.series.model import Reading

_MIB = 2.0**20


def readings_of(devices: Iterable[Device], node: str, model: str) -> Iterator[Reading]:
    """Yield what is measured of each device of a node."""
    for device in devices:
        use = device.use
        labels = {"node": node, "Hostname": node, "gpu": str(use.index), "device": f"nvidia{use.index}"}
        labels |= {"modelName": model, **({"UUID": device.name} if device.name else {})}
        free, reserved = None, use.memory_reserved_bytes or 0
        if use.memory_bytes is not None and use.memory_total_bytes is not None:
            free = max(0, use.memory_total_bytes - use.memory_bytes - reserved) / _MIB
        values = {
            "DCGM_FI_DEV_GPU_UTIL": use.busy_percent,
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": None if use.tensor_percent is None else use.tensor_percent / 100,
            "DCGM_FI_DEV_FB_USED": None if use.memory_bytes is None else use.memory_bytes / _MIB,
            "DCGM_FI_DEV_FB_FREE": free,
            "DCGM_FI_DEV_FB_RESERVED": None if use.memory_reserved_bytes is None else reserved / _MIB,
            "DCGM_FI_DEV_POWER_USAGE": use.power_w,
            "DCGM_FI_DEV_GPU_TEMP": use.temperature_c,
            "pai_device_power_limit_watts": use.power_limit_w,
        }
        known = {name: float(value) for name, value in values.items() if value is not None}
        yield Reading(Labels.of(labels), {**known, **device.health})
