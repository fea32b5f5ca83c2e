"""Checks the GPUs of this machine before they are given to tasks, and between tasks.

A device is bad while the driver cannot reach it, while it has had memory errors that could not be corrected since the
driver was loaded, or while its hardware slows it down because it is too hot. It is good again after it has passed three
times. What no library measures is not checked, and running tasks are left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from openpai.backends.host.gpu_use import GpuReader, NvidiaGpus, open_gpus
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.ports.backend import NodeSeen
from openpai.ports.task_usage import DeviceUse
from openpai.protocol.wording import plural

PASSES: Final = 3
"""How often in a row a bad device must pass before it is good again."""
PATIENCE_S: Final = 10.0
HOT: Final = 0x40
"""NVML's bit for clocks that the hardware reduces because of heat."""
SILENT: Final = "the driver does not reach it"
log: Final = structlog.get_logger(__name__)


class DeviceChecks:
    """The bad devices of this machine, each with the reason."""

    def __init__(self, gpus: Gpus, open_: Callable[[Sequence[str]], GpuReader] = open_gpus) -> None:
        self._gpus = gpus
        self._open = open_
        self._reader: GpuReader | None = None
        self._checking: asyncio.Future[dict[int, str]] | None = None
        self._bad: dict[int, str] = {}
        self._passed: dict[int, int] = {}

    async def applied(self, nodes: Sequence[NodeSeen]) -> tuple[NodeSeen, ...]:
        """Return nodes of this machine with the devices that are bad at the moment."""
        bad = await self.bad()
        if not bad:
            return tuple(nodes)
        because = "; ".join(f"GPU {device}: {reason}" for device, reason in sorted(bad.items()))
        return tuple(replace(node, bad_devices=frozenset(bad), message=node.message or because) for node in nodes)

    async def bad(self) -> Mapping[int, str]:
        """Check all devices; a driver that does not answer within seconds leaves what was known."""
        if not self._gpus.total or self._gpus.model == VIRTUAL:
            return {}
        patience_s = 0.0 if self._checking is not None else PATIENCE_S
        if self._checking is None:
            # One check at a time: a driver that hangs would fill the threads otherwise.
            self._checking = asyncio.ensure_future(asyncio.to_thread(self._check))
        done, _ = await asyncio.wait([self._checking], timeout=patience_s)
        if not done:
            if patience_s:
                log.warning("the driver of the GPUs does not answer", seconds=patience_s)
            return self._bad
        checked, self._checking = self._checking, None
        if (error := checked.exception()) is not None:
            log.error("the GPUs could not be checked", error=str(error))
        else:
            self._learn(checked.result())
        return self._bad

    def _check(self) -> dict[int, str]:
        if self._reader is None:
            self._reader = self._open(self._gpus.names)
        if not isinstance(self._reader, NvidiaGpus):
            return {}
        devices = range(self._gpus.total)
        uses, health = self._reader.read(devices), self._reader.health(devices)
        faults = {device: _fault(uses.get(device), health.get(device, {})) for device in devices}
        return {device: fault for device, fault in faults.items() if fault}

    def _learn(self, found: Mapping[int, str]) -> None:
        for device, reason in found.items():
            if self._bad.get(device) != reason:
                log.warning("a GPU gets no new tasks", gpu=device, because=reason)
            self._passed[device] = 0
        for device in self._bad.keys() - found.keys():
            self._passed[device] += 1
        kept = {device: reason for device, reason in self._bad.items() if self._passed[device] < PASSES}
        for device in sorted(self._bad.keys() - kept.keys() - found.keys()):
            log.info("a GPU gets tasks again", gpu=device)
        self._bad = {**kept, **found}


def _fault(use: DeviceUse | None, health: Mapping[str, float]) -> str:
    """Return why a device should get no tasks; empty if nothing is known against it."""
    if use is None or (use.memory_bytes, use.power_w, use.temperature_c) == (None, None, None):
        return SILENT
    errors = int(health.get("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0))
    if errors:
        return f"{plural(errors, 'memory error')} that could not be corrected (ECC) since the driver was loaded"
    if int(health.get("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0)) & HOT:
        degrees = "" if use.temperature_c is None else f" at {use.temperature_c:.0f} °C"
        return f"its hardware slows it down because it is too hot{degrees}"
    return ""
