"""What readers of GPUs of all vendors promise, and the one that has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from openpai.ports.task_usage import DeviceUse

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

    def __init__(self, why: str = "") -> None:
        """`why` is what stands in the way now, and may not later."""
        self.why = why

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        """Return nothing."""
        return {}

    def health(self, devices: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return nothing."""
        return {}

    def name(self, device: int) -> str:
        """Return nothing."""
        return ""
