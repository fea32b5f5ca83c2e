"""Measures NVIDIA's GPUs through NVML, where the package nvidia-ml-py is installed and a driver answers.

Devices are numbered as the backend grants them. A value that a card, a driver or a package does not know is left out,
and only that value. Plain blocking functions, meant for one thread.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import structlog

from openpai.backends.host.amd_use import open_amd
from openpai.backends.host.gpu_reading import GpuReader, NoGpus
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.backends.host.xids import bus_of
from openpai.ports.task_usage import DeviceUse

log: Final = structlog.get_logger(__name__)
_MULTIPROCESSOR_METRIC: Final = 2
_TENSOR_METRIC: Final = 5
_REFUSALS: Final = frozenset((3, 4, 13, 25, 26))
"""NVML's codes for what a GPU that answers does not tell: not supported, no permission, no such function or version,
deprecated. Other codes say that it is not reached, or by this handle no more."""
_FAILED: Final = object()
_NO_PACKAGE: Final = "install nvidia-ml-py, pip install 'openpai[nvidia]'"


def open_gpus(gpus: Gpus) -> GpuReader:
    """Return a reader of these GPUs, by the driver that found them: a machine may have cards of other vendors, too."""
    return open_amd() if gpus.files else open_nvidia(gpus.names)


def open_nvidia(names: Sequence[str] = ()) -> GpuReader:
    """Return a reader of NVIDIA's GPUs; `names` are the identifiers of granted devices, by their numbers."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return NoGpus(_NO_PACKAGE)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        log.debug("NVML cannot be used", error=str(error))
        return NoGpus(f"the driver's library does not start: {error}")
    return NvidiaGpus(nvml, names)


class GrantedGpus:
    """The reader of granted GPUs, opened when it is asked for, and again while the driver's library does not start."""

    def __init__(self, gpus: Gpus, open_: Callable[[Gpus], GpuReader] = open_gpus) -> None:
        self._gpus = gpus
        self._open = open_
        self._reader: GpuReader = NoGpus()

    def reader(self) -> GpuReader:
        """Return the reader; the first call may take a while."""
        if isinstance(self._reader, NoGpus) and self._gpus and self._gpus.model != VIRTUAL:
            self._reader = self._open(self._gpus)
        return self._reader


class _Opened(NamedTuple):
    """A device as the driver knows it."""

    handle: Any
    whole: Any
    """The handle of its GPU, which is the same if that is not divided; None if it is not reached."""
    is_slice: bool


class NvidiaGpus:
    """NVIDIA's GPUs, whole or in slices, through NVML."""

    def __init__(self, nvml: Any, names: Sequence[str] = ()) -> None:
        self.nvml = nvml
        self._names = names
        self._devices: dict[int, _Opened] = {}
        self._activity: dict[int, Any] = {}
        """The last sample of the counters of each device; None where it has none."""
        self._is_unreached = False
        """Whether a call failed since this was reset for another reason than that the card does not tell."""

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return the state of these devices; one that does not answer is left out."""
        found = {}
        for device in devices:
            if (opened := self._opened(device)) is None:
                continue
            self._is_unreached = False
            use = self._device(device, opened)
            # The temperature of a slice is its card's answer.
            own_c = None if opened.is_slice else use.temperature_c
            if self._is_unreached and (use.memory_bytes, use.power_w, own_c) == (None, None, None):
                # Another handle may reach it later, as after a slice was made again.
                self._forget(device)
            else:
                found[device] = use
        return found

    def health(self, devices: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return clocks, errors and states of these devices, by DCGM's names; what a card does not know is left out."""
        # The errors and the heat of a slice are those of its GPU.
        found = {device: opened.whole for device in devices if (opened := self._opened(device)) is not None}
        return {device: self._health(whole) for device, whole in found.items() if whole is not None}

    def _health(self, handle: Any) -> dict[str, float]:
        nvml, asked = self.nvml, self._asked
        single, double = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        since_start = nvml.NVML_VOLATILE_ECC
        reasons = asked("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if reasons is None:  # the newer name of the same
            reasons = asked("nvmlDeviceGetCurrentClocksEventReasons", handle)
        values = {
            "DCGM_FI_DEV_SM_CLOCK": asked("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            "DCGM_FI_DEV_MEM_CLOCK": asked("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            "DCGM_FI_DEV_PSTATE": asked("nvmlDeviceGetPerformanceState", handle),
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": reasons,
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": asked("nvmlDeviceGetTotalEccErrors", handle, single, since_start),
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": asked("nvmlDeviceGetTotalEccErrors", handle, double, since_start),
        }
        return {name: float(value) for name, value in values.items() if value is not None}

    def name(self, device: int) -> str:
        """Return the UUID of a device; empty if it is not reached."""
        opened = self._opened(device)
        found = None if opened is None else self._asked("nvmlDeviceGetUUID", opened.handle)
        return found.decode() if isinstance(found, bytes) else str(found or "")

    def bus(self, device: int) -> str:
        """Return the address of a device on the bus, of a slice that of its GPU; empty if it is not reached."""
        whole = self.whole(device)
        found = None if whole is None else self._asked("nvmlDeviceGetPciInfo", whole)
        return "" if found is None else bus_of(found.busId)

    def whole(self, device: int) -> Any:
        """Return the driver's handle of a device, of a slice that of its GPU; None if it is not reached."""
        opened = self._opened(device)
        return None if opened is None else opened.whole

    def _opened(self, device: int) -> _Opened | None:
        """Return a device as the driver knows it; None if it does not find it."""
        if device not in self._devices:
            with contextlib.suppress(self.nvml.NVMLError, IndexError, AttributeError):
                name = self._names[device] if self._names else ""
                by_name, by_index = self.nvml.nvmlDeviceGetHandleByUUID, self.nvml.nvmlDeviceGetHandleByIndex
                handle = by_name(name) if "-" in name else by_index(int(name or device))
                is_slice = bool(self._asked("nvmlDeviceIsMigDeviceHandle", handle))
                whole = self._asked("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if is_slice else handle
                self._devices[device] = _Opened(handle, whole, is_slice)
        return self._devices.get(device)

    def _forget(self, device: int) -> None:
        self._devices.pop(device, None)
        if self._activity.get(device) is None:
            self._activity.pop(device, None)

    def _device(self, device: int, opened: _Opened) -> DeviceUse:
        handle, whole, is_slice = opened
        memory = self._memory(handle)
        busy_percent, tensor_percent = self._activity_percent(device, opened)
        power_mw, limit_mw = None, None
        if not is_slice:
            # What a driver answers for a slice is of its whole GPU.
            rates = self._asked("nvmlDeviceGetUtilizationRates", handle)
            busy_percent = None if rates is None else float(rates.gpu)
            power_mw = self._asked("nvmlDeviceGetPowerUsage", handle)
            limit_mw = self._asked("nvmlDeviceGetEnforcedPowerLimit", handle)
        return DeviceUse(
            device,
            busy_percent=busy_percent,
            tensor_percent=tensor_percent,
            memory_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            power_w=None if power_mw is None else power_mw / 1000,
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            # All slices of a GPU are as hot as it is; drivers need not answer that of a slice.
            temperature_c=None if whole is None else self._temperature(whole),
            is_slice=is_slice,
            memory_reserved_bytes=getattr(memory, "reserved", None),
        )

    def _temperature(self, handle: Any) -> Any:
        sensor = self.nvml.NVML_TEMPERATURE_GPU
        found = self._asked("nvmlDeviceGetTemperature", handle, sensor)
        return self._asked("nvmlDeviceGetTemperatureV", handle, sensor) if found is None else found

    def _memory(self, handle: Any) -> Any:
        """Return the memory of a device; what the driver reserves is apart from what is used, where NVML knows it."""
        version = getattr(self.nvml, "nvmlMemory_v2", None)
        apart = None if version is None else self._asked("nvmlDeviceGetMemoryInfo", handle, version)
        return apart or self._asked("nvmlDeviceGetMemoryInfo", handle)

    def _activity_percent(self, device: int, opened: _Opened) -> tuple[float | None, float | None]:
        """Return how busy the multiprocessors and the tensor cores of a GPU or slice were since the last call.

        Cards before Hopper do not know.
        """
        nvml = self.nvml
        if device not in self._activity:
            whole = opened.whole
            support = None if whole is None else self._asked("nvmlGpmQueryDeviceSupport", whole)
            # Cards that cannot are not asked again.
            self._activity[device] = self._sampled(opened) if support and support.isSupportedDevice else None
            return None, None
        before = self._activity[device]
        if before is None or (now := self._sampled(opened)) is None:
            return None, None
        self._activity[device] = now
        wanted = nvml.c_nvmlGpmMetricsGet_t()
        wanted.version = nvml.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics, wanted.sample1, wanted.sample2 = 2, before, now
        wanted.metrics[0].metricId, wanted.metrics[1].metricId = _MULTIPROCESSOR_METRIC, _TENSOR_METRIC
        answer = self._asked("nvmlGpmMetricsGet", wanted)
        self._asked("nvmlGpmSampleFree", before)
        if answer is None:
            return None, None
        busy, tensor = (_percent(answer.metrics[number]) for number in range(2))
        return busy, tensor

    def _sampled(self, opened: _Opened) -> Any:
        sample = self._asked("nvmlGpmSampleAlloc")
        if sample is None:
            return None
        taken = _FAILED
        if not opened.is_slice:
            taken = self._called("nvmlGpmSampleGet", opened.handle, sample)
        elif (instance := self._asked("nvmlDeviceGetGpuInstanceId", opened.handle)) is not None:
            # An older library knows no samples of slices.
            taken = self._called("nvmlGpmMigSampleGet", opened.whole, instance, sample)
        if taken is _FAILED:
            self._asked("nvmlGpmSampleFree", sample)
            return None
        return sample

    def _asked(self, function: str, *arguments: Any) -> Any:
        """Return what NVML answers; None where the card, the driver or the package does not know it."""
        answer = self._called(function, *arguments)
        return None if answer is _FAILED else answer

    def _called(self, function: str, *arguments: Any) -> Any:
        call = getattr(self.nvml, function, None)
        if call is None:
            return _FAILED
        try:
            return call(*arguments)
        except self.nvml.NVMLError as error:
            self._is_unreached |= getattr(error, "value", None) not in _REFUSALS
            return _FAILED


def _percent(metric: Any) -> float | None:
    """Return the value of a counter; None where the driver says that it could not make it."""
    value = float(metric.value)
    return None if metric.nvmlReturn or not math.isfinite(value) else round(value, 1)
