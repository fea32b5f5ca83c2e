"""Checks the GPUs of this machine: whether the driver reaches them, their memory, their heat and their XID errors.

A device is bad while the driver cannot reach it, while it has had memory errors that could not be corrected since the
driver was loaded, while it is too hot, and for an hour after an XID error of its hardware. What no library measures is
not checked. Plain blocking functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from openpai.backends.host.findings import Finding
from openpai.backends.host.gpu_reading import HOT, GpuReader, NoGpus
from openpai.backends.host.gpu_use import GrantedGpus, NvidiaGpus, open_gpus
from openpai.backends.host.machine import Gpus
from openpai.backends.host.xids import KernelLog, NvmlEvents, Xids
from openpai.ports.task_usage import DeviceUse
from openpai.protocol.wording import plural

SILENT: Final = "the driver does not reach it"
PRESENT, MEMORY, HEAT, XID = "GPUs present", "memory errors (ECC)", "temperature", "XID errors"
_NO_LIBRARY: Final = "nothing here reads its state: "
_NOT_SAID: Final = "it does not report them"
_NO_XIDS: Final = "neither the driver's events nor the kernel's log can be read"
_ERRORS: Final = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
_REASONS: Final = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"


class DeviceChecks:
    """Looks at all devices of this machine."""

    def __init__(
        self,
        gpus: Gpus,
        open_: Callable[[Gpus], GpuReader] = open_gpus,
        kernel_log: KernelLog | None = None,
        xids: Xids | None = None,
    ) -> None:
        self._gpus = gpus
        self._granted = GrantedGpus(gpus, open_)
        self._kernel_log = kernel_log or KernelLog()
        self._xids = xids or Xids()
        self._events: NvmlEvents | None = None
        self._buses: dict[int, str] = {}
        self._newest: Mapping[int, int] = {}

    def look(self) -> list[Finding]:
        """Return what is found of each device now."""
        reader, devices = self._granted.reader(), range(self._gpus.total)
        if isinstance(reader, NoGpus):
            return [Finding(PRESENT, "unknown", f"{_NO_LIBRARY}{reader.why}", device) for device in devices]
        uses, health = reader.read(devices), reader.health(devices)
        found = [
            finding for device in devices for finding in _findings(device, uses.get(device), health.get(device, {}))
        ]
        return [*found, *(self._xid_findings(reader) if isinstance(reader, NvidiaGpus) else ())]

    def xids(self) -> Mapping[int, int]:
        """Return the number of the last XID error of each device, 0 for none; of none where they are not known."""
        return self._newest

    def close(self) -> None:
        """Close the kernel's log."""
        self._kernel_log.close()

    def _xid_findings(self, reader: NvidiaGpus) -> Iterator[Finding]:
        devices = range(self._gpus.total)
        events = self._events = self._events or NvmlEvents(reader.nvml)
        for device in devices:
            # Once it fell off the bus, a GPU does not say any more where it was.
            if device not in self._buses and (bus := reader.bus(device)):
                self._buses[device] = bus
            if device in self._buses:
                events.watch(self._buses[device], reader.whole(device))
        events.read(self._xids)
        is_log_read = self._kernel_log.read(self._xids)
        known = {device for device, bus in self._buses.items() if is_log_read or events.is_watched(bus)}
        self._newest = {device: self._xids.newest(self._buses[device]) for device in known}
        for device in devices:
            fault = self._xids.fault(self._buses.get(device, ""))
            if fault or device in known:
                yield Finding(XID, "failed" if fault else "passed", fault, device)
            else:
                yield Finding(XID, "unknown", _NO_XIDS, device)


def _findings(device: int, use: DeviceUse | None, health: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what is known of a device; of one that is not reached, nothing else is."""
    if use is None:
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
