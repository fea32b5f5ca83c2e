"""What is measured: metrics, and charts of their past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, amount, as_real_if_any, mapping, parts, text, value, whole


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
