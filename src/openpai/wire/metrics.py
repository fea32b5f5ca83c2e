"""Documents of what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document

Values = Annotated[Sequence[float | None], Doc(example=[62.5, 61.0, None])]


class MetricInfo(Document):
    """A metric of the catalogue."""

    name: Annotated[str, Doc(example="task_gpu_percent")]
    help: Annotated[str, Doc("what is measured", example="How busy a GPU of a task is.")]
    kind: Annotated[Literal["gauge", "counter"], Doc("the values of a counter are its rates per second")]
    unit: Annotated[str, Doc("the unit of its values; empty for a count", example="percent")]
    series: Annotated[int, Doc("how many series are measured now", example=8)]


class MetricList(Document):
    """Every metric."""

    metrics: Sequence[MetricInfo]


class MetricSeries(Document):
    """The values of one series; null where nothing was measured."""

    labels: Annotated[Mapping[str, str], Doc("what was measured", example={"role_name": "worker", "task_index": "0"})]
    mean: Values
    low: Values
    high: Values


class MetricChart(Document):
    """The past of a metric, as points for a chart: each is about the `step` from its time on."""

    name: Annotated[str, Doc(example="task_gpu_percent")]
    unit: Annotated[str, Doc(example="percent")]
    help: Annotated[str, Doc(example="How busy a GPU of a task is.")]
    start: Annotated[int, Doc("the time of the first point, in ms since 1970", example=1_760_000_000_000)]
    step: Annotated[int, Doc("the distance of two points in ms", example=60_000)]
    matched: Annotated[int, Doc("how many series match; only the newest are returned if there are many", example=1)]
    series: Sequence[MetricSeries]


class JobMetrics(Document):
    """What the tasks of a job used, from its start on."""

    charts: Sequence[MetricChart]
