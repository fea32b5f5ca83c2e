"""Reads all GPUs of this machine for metrics, with what its checks know of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openpai.backends.host.gpu_use import GpuReader, NoGpus, open_gpus
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.ports.task_usage import Device


class HostDevices:
    """The GPUs of a backend on this machine, by the numbers that tasks are granted. Plain blocking functions.

    It has a reader of its own: the activity that a driver counts is that since the last reading.
    """

    def __init__(
        self,
        gpus: Gpus,
        xids: Callable[[], Mapping[int, int]] = dict,
        open_: Callable[[Sequence[str]], GpuReader] = open_gpus,
    ) -> None:
        """`xids` returns the last XID error of each device that had one."""
        self._gpus = gpus
        self._xids = xids
        self._open = open_
        self._reader: GpuReader | None = NoGpus() if gpus.model == VIRTUAL or not gpus.total else None

    def read(self) -> tuple[Device, ...]:
        """Return the devices as they are now."""
        if self._reader is None:
            # Only now: the driver's library takes a while to start.
            self._reader = self._open(self._gpus.names)
        devices = range(self._gpus.total)
        uses, health, xids = self._reader.read(devices), self._reader.health(devices), self._xids()
        return tuple(
            Device(use, self._reader.name(number), {**health.get(number, {}), **_xid(xids, number)})
            for number, use in sorted(uses.items())
        )


def _xid(xids: Mapping[int, int], device: int) -> Mapping[str, float]:
    return {"DCGM_FI_DEV_XID_ERRORS": float(xids[device])} if device in xids else {}
