"""XID errors, by which NVIDIA's driver reports faults of GPUs, from its events and from the kernel's log.

Most are faults of programs. Those of the hardware, after which NVIDIA says to reset the GPU, keep new tasks away
from it for an hour after the last one: nothing says that a GPU was reset, and one that was not fails again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

QUIET_S: Final = 3600.0
"""How long a GPU must be without such an error before it takes tasks again."""
KERNEL_LOG: Final = "/dev/kmsg"
HARDWARE: Final[Mapping[int, str]] = {
    48: "a memory error that could not be corrected",
    62: "its microcontroller halted",
    64: "memory that could not be replaced",
    74: "an error of NVLink",
    79: "it fell off the bus",
    92: "many memory errors",
    95: "a memory error that could not be contained",
    119: "its system processor does not answer",
    120: "an error of its system processor",
    140: "a memory error that could not be corrected",
    143: "it could not be initialized",
}
"""The numbers of faults of the hardware; 94 is of one program only, and 63 reports that memory was replaced."""
_TIMEOUT: Final = 10
"""NVML's code for that no event arrived."""
_LINE: Final = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)[^)]*\): (\d+),")
_BUS: Final = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})")
_RECORD_BYTES: Final = 8192
_RECORDS_MAX: Final = 100_000
_USER: Final = 8
"""The least priority of records that programs wrote: anyone may imitate a line of the driver there."""


def bus_of(text: str | bytes) -> str:
    """Return the address of a device on the bus in one form; empty if it is none."""
    name = text.decode(errors="replace") if isinstance(text, bytes) else text
    found = _BUS.search(name.lower())
    return found[0] if found else ""


class Xids:
    """The last fault of the hardware of each GPU, by its address on the bus."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._last: dict[str, tuple[int, float]] = {}
        self._newest: dict[str, int] = {}

    def add(self, bus: str, number: int, at_s: float | None = None) -> None:
        """Record an error; those of programs make no GPU bad."""
        self._newest[bus] = number
        at_s = self._now_s() if at_s is None else at_s
        if number in HARDWARE and at_s >= self._last.get(bus, (0, -1.0))[1]:
            self._last[bus] = number, at_s

    def newest(self, bus: str) -> int:
        """Return the number of the last error of a GPU, of programs, too; 0 if it had none."""
        return self._newest.get(bus, 0)

    def fault(self, bus: str) -> str:
        """Return why a GPU is bad; empty if it had no such error lately."""
        number, at_s = self._last.get(bus, (0, 0.0))
        if not number or self._now_s() - at_s >= QUIET_S:
            return ""
        return f"Xid {number}: {HARDWARE[number]}, so it gets no tasks for an hour"


class KernelLog:
    """The messages of the kernel since the machine started."""

    def __init__(self, path: str = KERNEL_LOG) -> None:
        self._path = path
        self._file: int | None = None

    def read(self, xids: Xids) -> bool:
        """Record the errors since the last call, at first of all that is kept; False if the log cannot be read."""
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return False
        for _ in range(_RECORDS_MAX):
            try:
                record = os.read(self._file, _RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:  # older records were overwritten meanwhile
                    continue
                return error.errno == errno.EAGAIN
            if not record:
                return True
            take_record(record.decode(errors="replace"), xids)
        return True

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def take_record(record: str, xids: Xids) -> None:
    """Record the error in a record of the kernel's log, `priority,number,microseconds,flags;text`, if it has one."""
    head, _, text = record.partition(";")
    priority, _, rest = head.partition(",")
    found = _LINE.match(text)
    if found is None or not priority.isdecimal() or int(priority) >= _USER:
        return
    with contextlib.suppress(ValueError, IndexError):
        xids.add(bus_of(found[1]), int(found[2]), int(rest.split(",")[1]) / 1e6)


class NvmlEvents:
    """The events of the driver about some GPUs, each from when it is asked for."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._set: Any = None
        self._watched: dict[str, Any] = {}

    def watch(self, bus: str, handle: Any) -> None:
        """Ask for the events of the GPU at this address. One that sends none may be asked for again."""
        if handle is None or bus in self._watched:
            return
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            if self._set is None:
                self._set = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._set)
            self._watched[bus] = handle

    def is_watched(self, bus: str) -> bool:
        """Return whether the driver sends the events of the GPU at this address."""
        return bus in self._watched

    def read(self, xids: Xids) -> None:
        """Record the errors since the last call, without waiting for any."""
        for _ in range(_RECORDS_MAX if self._watched else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except (self._nvml.NVMLError, AttributeError) as error:
                if getattr(error, "value", None) != _TIMEOUT:
                    # As of a lost GPU, which may come again and again: watch the others again, in a new set.
                    self._close()
                return
            if bus := self._bus(event.device):
                xids.add(bus, int(event.eventData))

    def _bus(self, device: Any) -> str:
        with contextlib.suppress(self._nvml.NVMLError):
            return bus_of(self._nvml.nvmlDeviceGetPciInfo(device).busId)
        # A GPU that fell off the bus does not say any more where it was, but its handle is that which was watched.
        return next((bus for bus, handle in self._watched.items() if _address(handle) == _address(device)), "")

    def _close(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError, AttributeError):
            self._nvml.nvmlEventSetFree(self._set)
        self._set, self._watched = None, {}


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
