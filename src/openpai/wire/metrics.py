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


class ResourceEfficiency(Document):
    """A resource of a task, or of one of its GPUs: asked for and used. Null where nothing was measured."""

    asked: Annotated[float, Doc(example=16)]
    mean: Annotated[float | None, Doc("over time and tasks", example=2.5)]
    most: Annotated[float | None, Doc("the greatest of one task, within ten seconds", example=4)]
    share: Annotated[
        float | None, Doc("the used part: of processors and GPUs the mean, of memory the most", example=0.15)
    ]


class RoleEfficiency(Document):
    """What the tasks of a role asked for and used."""

    name: Annotated[str, Doc(example="worker")]
    tasks: Annotated[int, Doc(example=2)]
    tasksMeasured: Annotated[int, Doc("how many of them the values are of", example=2)]
    cpu: Annotated[ResourceEfficiency, Doc("processors")]
    memoryBytes: ResourceEfficiency
    gpus: Annotated[int, Doc("the GPUs of each task", example=4)]
    gpuPercent: Annotated[ResourceEfficiency, Doc("how busy each GPU was")]
    gpuMemoryPercent: Annotated[ResourceEfficiency, Doc("how full the memory of each GPU was")]
    gpusMeasured: Annotated[int, Doc(example=8)]
    gpusUnused: Annotated[int, Doc("how many of them did nothing all the time", example=0)]
    advice: Annotated[
        Sequence[str],
        Doc(example=["each task asked for 64 GB of memory and used at most 5 GB: ask for 8 GB"]),
    ]


class JobEfficiency(Document):
    """How much of what it asked for a job used, from its start on."""

    isOver: Annotated[bool, Doc("whether the job has ended", example=True)]
    measuredSeconds: Annotated[float, Doc("for how long it was measured; 0: not at all", example=5400)]
    taskRoles: Sequence[RoleEfficiency]
    noAdvice: Annotated[str, Doc("why nothing is advised; empty if something is", example="")]
