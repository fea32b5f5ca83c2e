"""A stand-in for libnvidia-ml.so under the real package nvidia-ml-py.

It has the functions, arguments and return codes that NVIDIA documents, and any of them can be missing or fail.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

OK, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 0, 2, 3, 4, 6
DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, UNKNOWN = 9, 10, 15, 999
LIBRARY_VERSION_MISMATCH = 18
_SET = 0x7000


def address(handle: Any) -> int:
    """Return what a handle points to."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _point(out: Any, to: int) -> None:
    ctypes.c_void_p.from_address(ctypes.addressof(out._obj)).value = to


class Library:
    """Two cards, of which the second may be divided. Its methods are the symbols of the library."""

    def __init__(self) -> None:
        self.fails: dict[tuple[str, int], int] = {}
        """The code that a function answers for a handle, 0 for every handle."""
        self.missing: set[str] = set()
        self.handles = {b"GPU-a": 0x1000, b"GPU-b": 0x2000}
        self.slices: dict[int, int] = {}
        """The cards of the handles of slices."""
        self.lost: set[int] = set()
        self.events: list[tuple[int, int]] = []
        self.registered: list[int] = []
        self.calls = 0
        self.metric_status = OK

    def divide(self, *names: bytes, first: int = 0x2100) -> None:
        """Divide the second card; handles of earlier slices are worth nothing any more."""
        self.handles = {name: handle for name, handle in self.handles.items() if not name.startswith(b"MIG-")}
        self.handles |= {name: first + number for number, name in enumerate(names)}
        self.slices = {first + number: 0x2000 for number in range(len(names))}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("nvml"):
            return found
        if name in self.missing:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls += 1
            handle = address(arguments[0]) if arguments and hasattr(arguments[0], "contents") else 0
            is_known = not handle or handle in (*self.handles.values(), _SET) or not name.startswith("nvmlDevice")
            if (code := self.fails.get((name, handle), self.fails.get((name, 0), OK))) or not is_known:
                return code or INVALID_ARGUMENT
            if name.startswith("nvmlDevice") and (handle in self.lost or self.slices.get(handle) in self.lost):
                return GPU_IS_LOST
            return int(found(*arguments))

        return call

    def nvmlInitWithFlags(self, flags: int) -> int:
        return OK

    def nvmlErrorString(self, code: int) -> bytes:
        return b"an error"

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> int:
        names = [name for name in self.handles if name.startswith(b"GPU-")]
        if index.value >= len(names):
            return INVALID_ARGUMENT
        _point(out, self.handles[names[index.value]])
        return OK

    def nvmlDeviceGetHandleByUUID(self, name: Any, out: Any) -> int:
        if name.value not in self.handles:
            return NOT_FOUND
        _point(out, self.handles[name.value])
        return OK

    def nvmlDeviceGetUUID(self, handle: Any, out: Any, length: Any) -> int:
        out.value = next(name for name, each in self.handles.items() if each == address(handle))
        return OK

    def nvmlDeviceIsMigDeviceHandle(self, handle: Any, out: Any) -> int:
        out._obj.value = address(handle) in self.slices
        return OK

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any, out: Any) -> int:
        _point(out, self.slices[address(handle)])
        return OK

    def nvmlDeviceGetPciInfo_v3(self, handle: Any, out: Any) -> int:
        out._obj.busId = b"00000000:3B:00.0" if address(handle) == 0x1000 else b"00000000:AF:00.0"
        return OK

    def nvmlDeviceGetMemoryInfo(self, handle: Any, out: Any) -> int:
        out._obj.total, out._obj.used, out._obj.free = 80, 10, 70
        return OK

    def nvmlDeviceGetMemoryInfo_v2(self, handle: Any, out: Any) -> int:
        out._obj.total, out._obj.reserved, out._obj.used = 80, 3, 7
        return OK

    def _whole_only(self, handle: Any, out: Any, value: int) -> int:
        if address(handle) in self.slices:
            return NOT_SUPPORTED
        out._obj.value = value
        return OK

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: Any, out: Any) -> int:
        return self._whole_only(handle, out, 64)

    def nvmlDeviceGetPowerUsage(self, handle: Any, out: Any) -> int:
        return self._whole_only(handle, out, 612_500)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, out: Any) -> int:
        return self._whole_only(handle, out, 700_000)

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, out: Any) -> int:
        return self._whole_only(handle, out, 1980 if kind.value == 1 else 2619)

    def nvmlDeviceGetPerformanceState(self, handle: Any, out: Any) -> int:
        return self._whole_only(handle, out, 0)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, out: Any) -> int:
        return self._whole_only(handle, out, 0x4)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, out: Any) -> int:
        return self._whole_only(handle, out, 0x4)

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, since: Any, out: Any) -> int:
        assert since.value == 0
        return self._whole_only(handle, out, 5 * (kind.value == 0))

    def nvmlDeviceGetUtilizationRates(self, handle: Any, out: Any) -> int:
        out._obj.gpu, out._obj.memory = 97, 40
        return NOT_SUPPORTED if address(handle) in self.slices else OK

    def nvmlDeviceGetGpuInstanceId(self, handle: Any, out: Any) -> int:
        out._obj.value = 5
        return OK

    def nvmlGpmQueryDeviceSupport(self, handle: Any, out: Any) -> int:
        out._obj.isSupportedDevice = 1
        return OK

    def nvmlGpmSampleAlloc(self, out: Any) -> int:
        _point(out, 0x9000)
        return OK

    def nvmlGpmSampleFree(self, sample: Any) -> int:
        return OK

    def nvmlGpmSampleGet(self, handle: Any, sample: Any) -> int:
        return OK if address(sample) == 0x9000 else INVALID_ARGUMENT

    def nvmlGpmMigSampleGet(self, handle: Any, instance: Any, sample: Any) -> int:
        return OK if (address(handle), instance) == (0x2000, 5) else INVALID_ARGUMENT

    def nvmlGpmMetricsGet(self, wanted: Any) -> int:
        for metric, value in zip(wanted._obj.metrics, (88.0, 61.54), strict=False):
            metric.value, metric.nvmlReturn = value if self.metric_status == OK else 0.0, self.metric_status
        return OK

    def nvmlEventSetCreate(self, out: Any) -> int:
        self.registered.clear()
        _point(out, _SET)
        return OK

    def nvmlEventSetFree(self, events: Any) -> int:
        return OK

    def nvmlDeviceRegisterEvents(self, handle: Any, kinds: Any, events: Any) -> int:
        if address(handle) in self.slices:
            return NOT_SUPPORTED
        assert (kinds.value, address(events)) == (8, _SET)
        self.registered.append(address(handle))
        return OK

    def nvmlEventSetWait_v2(self, events: Any, out: Any, timeout_ms: Any) -> int:
        assert (address(events), timeout_ms.value) == (_SET, 0)
        if not self.events:
            return GPU_IS_LOST if self.lost & set(self.registered) else TIMEOUT
        device, number = self.events.pop(0)
        ctypes.c_void_p.from_address(ctypes.addressof(out._obj)).value = device
        out._obj.eventType, out._obj.eventData = 8, number
        return OK


@contextmanager
def loaded(library: Library) -> Iterator[None]:
    """Let nvidia-ml-py call this library."""
    cache: dict[str, Callable[..., int]] = pynvml._nvmlGetFunctionPointer_cache
    before, pynvml.nvmlLib = pynvml.nvmlLib, library
    cache.clear()
    try:
        yield
    finally:
        cache.clear()
        pynvml.nvmlLib = before
