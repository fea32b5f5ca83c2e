"""Measures the GPUs of this machine: memory, power, temperature and activity.

NVIDIA's through NVML, where the package nvidia-ml-py is installed and a driver answers; AMD's through the files of the
kernel's driver, which need no library. Devices are numbered as the backend grants them. A value that a card does not
report is left out. Plain blocking functions, meant for one thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from openpai.backends.host.xids import NvmlEvents, bus_of
from openpai.ports.task_usage import DeviceUse

log: Final = structlog.get_logger(__name__)
AMD_ROOT: Final = Path("/sys/class/drm")
_AMD: Final = "0x1002"
_MULTIPROCESSOR_METRIC: Final = 2
_TENSOR_METRIC: Final = 5
HOT: Final = 0x40
"""NVML's bit for clocks that the hardware reduces because of heat."""


class GpuReader(Protocol):
    """Reads what GPUs do at the moment."""

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return the state of these devices; one that does not answer is left out."""
        ...

    def health(self, devices: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return clocks, errors and states of these devices, by DCGM's names; what a card does not know is left out."""
        ...

    def name(self, device: int) -> str:
        """Return the driver's own name of a device; empty if it has none."""
        ...


class NoGpus:
    """A machine on which no GPU can be measured."""

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return nothing."""
        return {}

    def health(self, devices: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return nothing."""
        return {}

    def name(self, device: int) -> str:
        """Return nothing."""
        return ""


def open_gpus(names: Sequence[str] = (), *, amd_root: Path = AMD_ROOT) -> GpuReader:
    """Return a reader of this machine's GPUs; `names` are the identifiers of granted devices, by their numbers."""
    with contextlib.suppress(ImportError):
        nvml = import_module("pynvml")
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            log.debug("NVML cannot be used", error=str(error))
        else:
            return NvidiaGpus(nvml, names)
    cards = amd_cards(amd_root)
    return AmdGpus(cards) if cards else NoGpus()


class NvidiaGpus:
    """NVIDIA's GPUs, whole or in slices, through NVML."""

    def __init__(self, nvml: Any, names: Sequence[str] = ()) -> None:
        self._nvml = nvml
        self._names = names
        self._handles: dict[int, Any] = {}
        self._activity: dict[int, Any] = {}
        """The last sample of the counters of each device; None where it has none."""

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return the state of these devices."""
        found = {}
        for device in devices:
            with contextlib.suppress(self._nvml.NVMLError, IndexError):
                found[device] = self._device(device, self._handle(device))
        return found

    def health(self, devices: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return clocks, errors and states of these devices, by DCGM's names; what a card does not know is left out."""
        found = {}
        for device in devices:
            with contextlib.suppress(self._nvml.NVMLError, IndexError, AttributeError):
                # Of a slice the errors and the heat are those of its GPU.
                found[device] = self._health(self._whole(self._handle(device)))
        return found

    def _health(self, handle: Any) -> dict[str, float]:
        nvml = self._nvml
        single, double = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        since_start = nvml.NVML_VOLATILE_ECC
        values = {
            "DCGM_FI_DEV_SM_CLOCK": self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "DCGM_FI_DEV_MEM_CLOCK": self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "DCGM_FI_DEV_PSTATE": self._asked(nvml.nvmlDeviceGetPerformanceState, handle),
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": self._asked(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": self._asked(nvml.nvmlDeviceGetTotalEccErrors, handle, single, since_start),
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": self._asked(nvml.nvmlDeviceGetTotalEccErrors, handle, double, since_start),
        }
        return {name: float(value) for name, value in values.items() if value is not None}

    def name(self, device: int) -> str:
        """Return the UUID of a device; empty if it is not reached."""
        with contextlib.suppress(self._nvml.NVMLError, IndexError, AttributeError):
            found = self._nvml.nvmlDeviceGetUUID(self._handle(device))
            return found.decode() if isinstance(found, bytes) else str(found)
        return ""

    def bus(self, device: int) -> str:
        """Return the address of a device on the bus, of a slice that of its GPU; empty if it is not reached."""
        with contextlib.suppress(self._nvml.NVMLError, IndexError, AttributeError):
            return bus_of(self._nvml.nvmlDeviceGetPciInfo(self._whole(self._handle(device))).busId)
        return ""

    def events(self, devices: Iterable[int]) -> NvmlEvents:
        """Return the driver's events about the GPUs of these devices, each once."""
        handles: dict[str, Any] = {}
        for device in devices:
            with contextlib.suppress(self._nvml.NVMLError, IndexError, AttributeError):
                handles.setdefault(self.bus(device), self._whole(self._handle(device)))
        handles.pop("", None)
        return NvmlEvents(self._nvml, handles)

    def _whole(self, handle: Any) -> Any:
        """Return the GPU of a slice; one that is not divided is its own."""
        return self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if self._is_slice(handle) else handle

    def _is_slice(self, handle: Any) -> bool:
        return bool(self._asked(self._nvml.nvmlDeviceIsMigDeviceHandle, handle))

    def _handle(self, device: int) -> Any:
        if device not in self._handles:
            name = self._names[device] if self._names else ""
            by_name, by_index = self._nvml.nvmlDeviceGetHandleByUUID, self._nvml.nvmlDeviceGetHandleByIndex
            self._handles[device] = by_name(name) if "-" in name else by_index(int(name or device))
        return self._handles[device]

    def _device(self, device: int, handle: Any) -> DeviceUse:
        nvml = self._nvml
        memory = self._memory(handle)
        busy_percent, tensor_percent = self._activity_percent(device, handle)
        power_mw, limit_mw, is_slice = None, None, self._is_slice(handle)
        if not is_slice:
            # What a driver answers for a slice is of its whole GPU.
            rates = self._asked(nvml.nvmlDeviceGetUtilizationRates, handle)
            busy_percent = None if rates is None else float(rates.gpu)
            power_mw = self._asked(nvml.nvmlDeviceGetPowerUsage, handle)
            limit_mw = self._asked(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        return DeviceUse(
            device,
            busy_percent=busy_percent,
            tensor_percent=tensor_percent,
            memory_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            power_w=None if power_mw is None else power_mw / 1000,
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            temperature_c=self._asked(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            is_slice=is_slice,
            memory_reserved_bytes=getattr(memory, "reserved", None),
        )

    def _memory(self, handle: Any) -> Any:
        """Return the memory of a device; what the driver reserves is apart from what is used, where NVML knows it."""
        nvml = self._nvml
        apart = self._asked(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        return apart or self._asked(nvml.nvmlDeviceGetMemoryInfo, handle)

    def _activity_percent(self, device: int, handle: Any) -> tuple[float | None, float | None]:
        """Return how busy the multiprocessors and the tensor cores of a GPU or slice were since the last call.

        Cards before Hopper do not know.
        """
        nvml = self._nvml
        if device not in self._activity:
            support = self._asked(nvml.nvmlGpmQueryDeviceSupport, self._whole(handle))
            # Cards that cannot are not asked again.
            self._activity[device] = self._sampled(handle) if support and support.isSupportedDevice else None
            return None, None
        before = self._activity[device]
        if before is None or (now := self._sampled(handle)) is None:
            return None, None
        self._activity[device] = now
        wanted = nvml.c_nvmlGpmMetricsGet_t()
        wanted.version = nvml.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics, wanted.sample1, wanted.sample2 = 2, before, now
        wanted.metrics[0].metricId, wanted.metrics[1].metricId = _MULTIPROCESSOR_METRIC, _TENSOR_METRIC
        answer = self._asked(nvml.nvmlGpmMetricsGet, wanted)
        self._asked(nvml.nvmlGpmSampleFree, before)
        if answer is None:
            return None, None
        busy, tensor = (round(float(answer.metrics[number].value), 1) for number in range(2))
        return busy, tensor

    def _sampled(self, handle: Any) -> Any:
        sample = self._asked(self._nvml.nvmlGpmSampleAlloc)
        if sample is None:
            return None
        try:
            if self._is_slice(handle):
                instance = self._nvml.nvmlDeviceGetGpuInstanceId(handle)
                self._nvml.nvmlGpmMigSampleGet(self._whole(handle), instance, sample)
            else:
                self._nvml.nvmlGpmSampleGet(handle, sample)
        except (self._nvml.NVMLError, AttributeError):
            # An older library knows no samples of slices.
            self._asked(self._nvml.nvmlGpmSampleFree, sample)
            return None
        return sample

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what NVML answers; None where the card does not know it."""
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None


class AmdGpus:
    """AMD's GPUs, through the files of the amdgpu driver."""

    def __init__(self, cards: Sequence[Path]) -> None:
        self._cards = cards

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return the state of these devices."""
        return {device: self._device(device) for device in devices if device < len(self._cards)}

    def _device(self, device: int) -> DeviceUse:
        card = self._cards[device]
        sensors = next(iter(sorted(card.glob("hwmon/hwmon*"))), card)
        power_uw = _number(sensors / "power1_average")
        power_uw = _number(sensors / "power1_input") if power_uw is None else power_uw
        limit_uw, milli_c = _number(sensors / "power1_cap"), _number(sensors / "temp1_input")
        return DeviceUse(
            device,
            busy_percent=_number(card / "gpu_busy_percent"),
            memory_bytes=_number(card / "mem_info_vram_used"),
            memory_total_bytes=_number(card / "mem_info_vram_total"),
            power_w=None if power_uw is None else power_uw / 1e6,
            power_limit_w=None if limit_uw is None else limit_uw / 1e6,
            temperature_c=None if milli_c is None else milli_c / 1000,
        )

    def health(self, devices: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return errors and states of these devices, by DCGM's names."""
        return {device: _amd_health(self._cards[device]) for device in devices if device < len(self._cards)}

    def name(self, device: int) -> str:
        """Return the number of the chip, which stays with it; empty if the driver does not say it."""
        return _text(self._cards[device] / "unique_id") if device < len(self._cards) else ""


def _amd_health(card: Path) -> dict[str, float]:
    counts = [_uncorrected(_text(path)) for path in sorted(card.glob("ras/*_err_count"))]
    errors = [count for count in counts if count is not None]
    is_hot = any(
        (_number(sensor) or 0) >= limit
        for sensor in card.glob("hwmon/hwmon*/temp*_input")
        if (limit := _number(sensor.with_name(sensor.name.replace("_input", "_crit")))) is not None
    )
    reasons = {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": float(HOT if is_hot else 0)}
    return {**reasons, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": float(sum(errors))} if errors else reasons


def _uncorrected(text: str) -> int | None:
    """Return the errors that were not corrected in a file such as `ue: 0\\nce: 3`."""
    found = dict(line.partition(":")[::2] for line in text.splitlines())
    count = found.get("ue", "").strip()
    return int(count) if count.isdecimal() else None


def amd_cards(root: Path) -> list[Path]:
    """Return the directories of AMD's cards, by the addresses of their slots, as ROCm numbers them."""
    with contextlib.suppress(OSError):
        cards = [card / "device" for card in root.glob("card[0-9]*") if "-" not in card.name]
        ours = [card for card in cards if _text(card / "vendor") == _AMD and (card / "mem_info_vram_total").exists()]
        return sorted(ours, key=lambda card: card.resolve().name)
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdecimal() else None
