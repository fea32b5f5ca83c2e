"""Documents of what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from openpai.lifecycle.efficiency import (
    GPU_UNUSED_PERCENT,
    RoleEfficiency,
    RoleUse,
    Used,
    efficiency_of,
    why_no_advice,
)
from openpai.protocol.job import TaskRole
from openpai.series.catalogue import METRICS
from openpai.series.labels import clean
from openpai.series.model import Answer, Query, Series
from openpai.series.rounds import Round
from openpai.wire import metrics as wire

EFFICIENCY_NAMES: Final = ("task_cpu_percent", "task_mem_usage_byte", "task_gpu_percent", "task_gpu_mem_percent")


def metric_list(now: Round) -> wire.MetricList:
    """Return every metric, with how many series of it are measured now."""
    counts = Counter(name for values in now.values.values() for name in values)
    return {
        "metrics": [
            {"name": one.name, "help": one.help, "kind": one.kind, "unit": one.unit, "series": counts[one.name]}
            for one in sorted(METRICS.values(), key=lambda metric: metric.name)
        ]
    }


def chart(query: Query, answer: Answer) -> wire.MetricChart:
    """Return the points of a chart."""
    metric = METRICS[query.name]
    return {
        "name": metric.name,
        "unit": metric.unit,
        "help": metric.help,
        "start": query.start_ms // query.step_ms * query.step_ms,
        "step": query.step_ms,
        "matched": answer.matched,
        "series": [_series(one) for one in answer.series],
    }


class Measured:
    """Gathers what the tasks of a job used, by task role."""

    def __init__(self) -> None:
        self.measured_ms = 0
        """For how long the task was measured that was measured for longest."""
        self._series: dict[tuple[str, str], list[Series]] = {}

    def add(self, name: str, answer: Answer) -> None:
        """Add the series of one of `EFFICIENCY_NAMES`."""
        for one in answer.series:
            self._series.setdefault((one.labels.get("role_name"), name), []).append(one)

    def efficiency(self, roles: Sequence[TaskRole]) -> tuple[RoleEfficiency, ...]:
        """Return the efficiency of each task role."""
        for found in self._series.values():
            self.measured_ms = max(self.measured_ms, *(len(one.points()) * one.step_ms for one in found))
        return efficiency_of(roles, {role.name: self._use(clean(role.name)) for role in roles}, self.measured_ms)

    def _use(self, role: str) -> RoleUse:
        gpus = self._series.get((role, "task_gpu_percent"), [])
        return RoleUse(
            tasks=len(self._series.get((role, "task_mem_usage_byte"), [])),
            cpus=self._used(role, "task_cpu_percent", 0.01),
            memory_bytes=self._used(role, "task_mem_usage_byte"),
            gpu_percent=self._used(role, "task_gpu_percent"),
            gpu_memory_percent=self._used(role, "task_gpu_mem_percent"),
            gpus=len(gpus),
            gpus_unused=sum(_most(one) < GPU_UNUSED_PERCENT for one in gpus),
        )

    def _used(self, role: str, name: str, unit: float = 1.0) -> Used | None:
        found = [one for one in self._series.get((role, name), []) if one.points()]
        if not found:
            return None
        values = [value for one in found for _, value in one.points()]
        return Used(sum(values) / len(values) * unit, max(map(_most, found)) * unit)


def _most(one: Series) -> float:
    return max((value for value in one.high if value == value), default=0.0)


def efficiency(roles: Sequence[RoleEfficiency], measured_ms: int, *, is_over: bool) -> wire.JobEfficiency:
    """Return how much of what it asked for a job used."""
    return {
        "isOver": is_over,
        "measuredSeconds": measured_ms / 1000,
        "taskRoles": [_role_efficiency(one) for one in roles],
        "noAdvice": why_no_advice(roles, measured_ms),
    }


def _role_efficiency(one: RoleEfficiency) -> wire.RoleEfficiency:
    requested, used, shares = one.role.resources, one.used, one.shares
    gpu, gpu_memory = (used.gpu_percent, used.gpu_memory_percent) if requested.gpus else (None, None)
    return {
        "name": one.role.name,
        "tasks": one.role.instances,
        "tasksMeasured": used.tasks,
        "cpu": _resource(requested.cpus, used.cpus, shares["cpu"]),
        "memoryBytes": _resource(requested.memory_mb * 2**20, used.memory_bytes, shares["memory"]),
        "gpus": requested.gpus,
        "gpuPercent": _resource(100, gpu, shares["gpu"]),
        "gpuMemoryPercent": _resource(100, gpu_memory, shares["gpuMemory"]),
        "gpusMeasured": used.gpus,
        "gpusUnused": used.gpus_unused,
        "advice": one.advice,
    }


def _resource(requested: float, used: Used | None, share: float | None) -> wire.ResourceEfficiency:
    return {
        "asked": requested,
        "mean": None if used is None else _short(used.mean),
        "most": None if used is None else _short(used.most),
        "share": None if share is None else _short(share),
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _series(one: Series) -> wire.MetricSeries:
    return {
        "labels": dict(one.labels.pairs),
        "mean": _values(one.mean),
        "low": _values(one.low),
        "high": _values(one.high),
    }


def _values(values: Sequence[float]) -> list[float | None]:
    # Six digits are more than is kept, and NaN is no JSON.
    return [float(f"{value:.6g}") if value == value else None for value in values]
