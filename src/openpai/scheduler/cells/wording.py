"""Describes devices in the words of a job file: CPUs, memory and GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openpai.protocol.wording import joined, memory, plural
from openpai.scheduler.config.model import SkuSpec
from openpai.scheduler.model import Ask


def amount_text(cpus: int, memory_mb: int, gpus: int) -> str:
    """Return resources as text, without those of which there are none."""
    parts = [plural(cpus, "CPU")] if cpus else []
    parts += [f"{memory(memory_mb)} of memory"] if memory_mb else []
    parts += [plural(gpus, "GPU")] if gpus else []
    return joined(parts) if parts else "nothing"


def ask_text(ask: Ask) -> str:
    """Return what a task asks for as text."""
    return amount_text(ask.cpus, ask.memory_mb, ask.gpus)


@dataclass(frozen=True, slots=True)
class ResourceUnit:
    """The unit in which messages count devices of a type: GPUs, CPUs of nodes without GPUs, or devices."""

    noun: str
    per_device: int = 1
    kind: str = ""
    """The GPU type; empty for CPUs and unknown devices."""

    @classmethod
    def of(cls, kind: str, sku: SkuSpec | None) -> ResourceUnit:
        """Return the unit for devices of a type with a SKU."""
        if sku is not None and sku.gpus:
            return cls("GPU", sku.gpus, kind)
        if sku is not None and sku.cpus:
            return cls("CPU", sku.cpus)
        return cls(f"{kind} device")

    def count(self, devices: int) -> int:
        """Return how many units some devices are."""
        return devices * self.per_device

    def describe(self, devices: int) -> str:
        """Return devices as text."""
        return plural(self.count(devices), self.noun) + (f" ({self.kind})" if self.kind else "")

    def asked(self, ask: Ask) -> int:
        """Return how many of these units a task asks for by name."""
        return {"GPU": ask.gpus, "CPU": ask.cpus}.get(self.noun, 0)


def share_text(asks: Iterable[Ask], devices: int, unit: ResourceUnit, sku: SkuSpec | None) -> str:
    """Return why tasks take more devices than they ask for by name; empty when they do not.

    A device has its share of a node, and a task takes as many devices as its largest request needs.
    """
    requested = list(asks)
    if sku is None or unit.count(devices) <= sum(map(unit.asked, requested)):
        return ""
    largest = max(requested, key=lambda ask: (ask.gpus, ask.memory_mb, ask.cpus))
    per = amount_text(0 if unit.noun == "CPU" else sku.cpus, sku.memory_mb, 0)
    brings = f"{plural(unit.per_device, unit.noun)} {'comes' if unit.per_device == 1 else 'come'} with {per}"
    return f" (a task asks for {ask_text(largest)}, and {brings})"
