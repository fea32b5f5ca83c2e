"""Reads all GPUs of this machine for metrics, with what its checks know of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openpai.backends.host.gpu_reading import GpuReader
from openpai.backends.host.gpu_use import GrantedGpus, open_gpus
from openpai.backends.host.machine import Gpus
from openpai.ports.task_usage import Device


class HostDevices:
    """The GPUs of a backend on this machine, by the numbers that tasks are granted. Plain blocking functions.

    It has a reader of its own: the activity that a driver counts is that since the last reading.
    """

    def __init__(
        self,
        gpus: Gpus,
        xids: Callable[[], Mapping[int, int]] = dict,
        open_: Callable[[Gpus], GpuReader] = open_gpus,
    ) -> None:
        """`xids` returns the last XID error of each device for which they are known."""
        self._total = gpus.total
        self._xids = xids
        self._granted = GrantedGpus(gpus, open_)
        self._names: dict[int, str] = {}

    def read(self) -> tuple[Device, ...]:
        """Return the devices as they are now."""
        reader = self._granted.reader()
        devices = range(self._total)
        uses, health, xids = reader.read(devices), reader.health(devices), self._xids()
        for number in devices:
            # A name that comes and goes would make two series of each value.
            if number not in self._names and (name := reader.name(number)):
                self._names[number] = name
        return tuple(
            Device(use, self._names.get(number, ""), {**health.get(number, {}), **_xid(xids, number)})
            for number, use in sorted(uses.items())
        )


def _xid(xids: Mapping[int, int], device: int) -> Mapping[str, float]:
    return {"DCGM_FI_DEV_XID_ERRORS": float(xids[device])} if device in xids else {}
