"""Checks the GPUs of this machine: whether the driver reaches them, their memory, their heat and their XID errors.

A device is bad while the driver cannot reach it, while it has had memory errors that could not be corrected since the
driver was loaded, while it is too hot, and for an hour after an XID error of its hardware. What no library measures is
not checked. Plain blocking functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from openpai.backends.host.findings import Finding
from openpai.backends.host.gpu_use import HOT, GpuReader, NoGpus, NvidiaGpus, open_gpus
from openpai.backends.host.machine import Gpus
from openpai.backends.host.xids import KernelLog, NvmlEvents, Xids
from openpai.ports.task_usage import DeviceUse
from openpai.protocol.wording import plural

SILENT: Final = "the driver does not reach it"
PRESENT, MEMORY, HEAT, XID = "GPUs present", "memory errors (ECC)", "temperature", "XID errors"
_NO_LIBRARY: Final = "nothing here reads its state: install nvidia-ml-py, pip install 'openpai[nvidia]'"
_NOT_SAID: Final = "it does not report them"
_NO_XIDS: Final = "neither the driver's events nor the kernel's log can be read"
_ERRORS: Final = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
_REASONS: Final = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"


class DeviceChecks:
    """Looks at all devices of this machine."""

    def __init__(
        self,
        gpus: Gpus,
        open_: Callable[[Sequence[str]], GpuReader] = open_gpus,
        kernel_log: KernelLog | None = None,
        xids: Xids | None = None,
    ) -> None:
        self._gpus = gpus
        self._open = open_
        self._kernel_log = kernel_log or KernelLog()
        self._xids = xids or Xids()
        self._reader: GpuReader | None = None
        self._events: NvmlEvents | None = None
        self._buses: dict[int, str] = {}
        self._are_xids_known = False

    def look(self) -> list[Finding]:
        """Return what is found of each device now."""
        if self._reader is None:
            self._reader = self._open(self._gpus.names)
        devices = range(self._gpus.total)
        if isinstance(self._reader, NoGpus):
            return [Finding(PRESENT, "unknown", _NO_LIBRARY, device) for device in devices]
        uses, health = self._reader.read(devices), self._reader.health(devices)
        found = [
            finding for device in devices for finding in _findings(device, uses.get(device), health.get(device, {}))
        ]
        return [*found, *(self._xid_findings(self._reader) if isinstance(self._reader, NvidiaGpus) else ())]

    def xids(self) -> Mapping[int, int]:
        """Return the number of the last XID error of each device, 0 for none; of none where they are not known."""
        if not self._are_xids_known:
            return {}
        return {device: self._xids.newest(bus) for device, bus in self._buses.copy().items()}

    def close(self) -> None:
        """Close the kernel's log."""
        self._kernel_log.close()

    def _xid_findings(self, reader: NvidiaGpus) -> Iterator[Finding]:
        for device in range(self._gpus.total):
            # Once it fell off the bus, a GPU does not say any more where it was.
            if device not in self._buses and (bus := reader.bus(device)):
                self._buses[device] = bus
        if self._events is None:
            self._events = reader.events(range(self._gpus.total))
        self._events.read(self._xids)
        self._are_xids_known = is_read = self._kernel_log.read(self._xids) or self._events.is_there
        for device in range(self._gpus.total):
            fault = self._xids.fault(self._buses.get(device, ""))
            if fault or is_read:
                yield Finding(XID, "failed" if fault else "passed", fault, device)
            else:
                yield Finding(XID, "unknown", _NO_XIDS, device)


def _findings(device: int, use: DeviceUse | None, health: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what is known of a device; of one that is not reached, nothing else is."""
    if use is None or (use.memory_bytes, use.power_w, use.temperature_c) == (None, None, None):
        yield Finding(PRESENT, "failed", SILENT, device)
        return
    yield Finding(PRESENT, device=device)
    if (errors := health.get(_ERRORS)) is None:
        yield Finding(MEMORY, "unknown", _NOT_SAID, device)
    elif errors:
        message = f"{plural(int(errors), 'memory error')} that could not be corrected (ECC) since the driver was loaded"
        yield Finding(MEMORY, "failed", message, device)
    else:
        yield Finding(MEMORY, device=device)
    if int(health.get(_REASONS, 0)) & HOT:
        degrees = "" if use.temperature_c is None else f" at {use.temperature_c:.0f} °C"
        yield Finding(HEAT, "failed", f"its hardware slows it down because it is too hot{degrees}", device)
    elif use.temperature_c is None and _REASONS not in health:
        yield Finding(HEAT, "unknown", "it does not report it", device)
    else:
        yield Finding(HEAT, device=device)
