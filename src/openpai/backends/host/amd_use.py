"""Measures AMD's GPUs through the files of the kernel's driver, which need no library. Plain blocking functions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from openpai.backends.host.gpu_reading import HOT, GpuReader, NoGpus
from openpai.ports.task_usage import DeviceUse

AMD_ROOT: Final = Path("/sys/class/drm")
_AMD: Final = "0x1002"


def open_amd(root: Path = AMD_ROOT) -> GpuReader:
    """Return a reader of AMD's GPUs."""
    cards = amd_cards(root)
    return AmdGpus(cards) if cards else NoGpus("the amdgpu driver shows no card")


class AmdGpus:
    """AMD's GPUs, through the files of the amdgpu driver."""

    def __init__(self, cards: Sequence[Path]) -> None:
        self._cards = cards

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return the state of these devices; one of whose files none can be read does not answer."""
        found = {device: self._device(device) for device in devices if device < len(self._cards)}
        silent = (None, None, None)
        return {
            device: use for device, use in found.items() if (use.memory_bytes, use.power_w, use.temperature_c) != silent
        }

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
    sensors = [
        (degrees, limit)
        for sensor in card.glob("hwmon/hwmon*/temp*_input")
        if (degrees := _number(sensor)) is not None
        and (limit := _number(sensor.with_name(sensor.name.replace("_input", "_crit")))) is not None
    ]
    is_hot = any(degrees >= limit for degrees, limit in sensors)
    reasons = {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": float(HOT if is_hot else 0)} if sensors else {}
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
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdecimal() else None
