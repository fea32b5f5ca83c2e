"""What is measured: metrics, and charts of their past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    as_real_if_any,
    flag,
    mapping,
    measured,
    part,
    parts,
    real,
    text,
    texts,
    value,
    whole,
)


def _values(found: Any) -> tuple[float | None, ...]:
    return tuple(map(as_real_if_any, found)) if isinstance(found, list) else ()


@dataclass(frozen=True, slots=True)
class MetricInfo(Answer):
    """A metric of the platform."""

    name: str = text("name")
    help: str = text("help")
    kind: str = text("kind")
    """gauge or counter; the values of a counter are its rates per second."""
    unit: str = text("unit")
    series: int = amount("series")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class MetricSeries(Answer):
    """The values of one series; None where nothing was measured."""

    labels: Mapping[str, Any] = mapping("labels")
    mean: tuple[float | None, ...] = value("mean", convert=_values)
    low: tuple[float | None, ...] = value("low", convert=_values)
    high: tuple[float | None, ...] = value("high", convert=_values)


@dataclass(frozen=True, slots=True)
class MetricChart(Answer):
    """The past of a metric: each point is about the `step_ms` from its time on."""

    name: str = text("name")
    unit: str = text("unit")
    help: str = text("help")
    start_ms: int = amount("start")
    step_ms: int = amount("step")
    matched: int = amount("matched")
    series: tuple[MetricSeries, ...] = parts(MetricSeries, "series")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class ResourceEfficiency(Answer):
    """A resource of a task, or of one of its GPUs; None where nothing was measured."""

    asked: float = real("asked")
    mean: float | None = measured("mean")
    most: float | None = measured("most")
    share: float | None = measured("share")
    """The used part: of processors and GPUs the mean, of memory the most."""


@dataclass(frozen=True, slots=True)
class RoleEfficiency(Answer):
    """What the tasks of a role asked for and used."""

    name: str = text("name")
    tasks: int = amount("tasks")
    tasks_measured: int = amount("tasksMeasured")
    cpu: ResourceEfficiency = part(ResourceEfficiency, "cpu")
    memory_bytes: ResourceEfficiency = part(ResourceEfficiency, "memoryBytes")
    gpus: int = amount("gpus")
    gpu_percent: ResourceEfficiency = part(ResourceEfficiency, "gpuPercent")
    gpu_memory_percent: ResourceEfficiency = part(ResourceEfficiency, "gpuMemoryPercent")
    gpus_measured: int = amount("gpusMeasured")
    gpus_unused: int = amount("gpusUnused")
    advice: tuple[str, ...] = texts("advice")


@dataclass(frozen=True, slots=True)
class JobEfficiency(Answer):
    """How much of what it asked for a job used, from its start on."""

    is_over: bool = flag("isOver")
    measured_s: float = real("measuredSeconds")
    """0: nothing was measured."""
    roles: tuple[RoleEfficiency, ...] = parts(RoleEfficiency, "taskRoles")
    no_advice: str = text("noAdvice")
    """Why nothing is advised; empty if something is."""
    document: Document = whole()
