"""What is measured: as Prometheus's text, as charts of any metric for administrators, and as charts of a job."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from openpai.api.answers import Reply, reply, text
from openpai.api.bodies import invalid
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for
from openpai.api.job_attempts import spec_of
from openpai.api.request_times import BOUNDS_S
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import metrics as shapes
from openpai.metrics.exposition import CONTENT_TYPE, exposed
from openpai.metrics.prometheus import SERIES_MAX as SERIES_READ
from openpai.ports.metrics import Metrics
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from openpai.series.catalogue import METRICS
from openpai.series.labels import LABEL_MAX, Matcher, matching
from openpai.series.model import Answer
from openpai.series.model import Query as SeriesQuery
from openpai.series.retention import chart_step_ms
from openpai.wire.metrics import JobEfficiency, JobMetrics, MetricChart, MetricList

router = Router("metrics")
HOUR_MS: Final = 3_600_000
POINTS_MAX: Final = 1_000
SERIES_MAX: Final = 100
EFFICIENCY_POINTS: Final = 200
EFFICIENCY_SERIES: Final = 256
JOB_NAMES: Final = (
    "pai_job_cpus_used",
    "pai_job_memory_used_bytes",
    "pai_job_gpu_percent",
    "pai_job_progress_steps",
    "pai_job_progress_value",
)
_JOB_METRICS: Final = frozenset(name for name in METRICS if name.startswith(("pai_job_", "task_")))
_TIME_MAX: Final = 1 << 52
# The description has the pattern; the refusal is ours, which says what is wrong.
Label = Annotated[str, Field(max_length=LABEL_MAX + 100, json_schema_extra={"pattern": "^[A-Za-z_][A-Za-z0-9_]*="})]
Names = Annotated[list[Annotated[str, Field(max_length=100)]] | None, Query(max_length=12, description="Metrics.")]
Ms = Annotated[int | None, Query(ge=0, le=_TIME_MAX, description="In milliseconds since 1970.")]
Points = Annotated[int, Query(ge=1, le=POINTS_MAX, description="The greatest number of points of a series.")]
Series = Annotated[int, Query(ge=1, le=SERIES_MAX, description="The greatest number of series of a metric.")]


@router.serves(
    "GET /metrics",
    "Show what is measured in Prometheus's text",
    media={"text/plain": '# TYPE pai_jobs gauge\npai_jobs{state="running"} 3.0\n'},
)
async def get_metrics_text(request: Request, caller: Annotated[Caller, needs("metrics.read")]) -> Response:
    """Return what this server measured last, for Prometheus to scrape with an application token.

    The server that leads has everything about nodes and jobs; the others have what concerns themselves.
    """
    context = context_of(request)
    bounds = (*BOUNDS_S, float("inf"))
    buckets = tuple(zip(bounds, context.times.buckets, strict=True))
    return text(exposed(_metrics(request).newest, buckets, context.times.seconds), CONTENT_TYPE)


@router.serves("GET /api/v2/metrics", "List the metrics")
async def list_metrics(request: Request, caller: Annotated[Caller, needs("metrics.read")]) -> Reply[MetricList]:
    """Return every metric with its meaning, and how many series of it are measured now."""
    await context_of(request).services.platform.require_leader()
    return reply(shapes.metric_list(_metrics(request).newest))


@router.serves("GET /api/v2/metrics/{name}", "Show the past of a metric", "NoMetricError")
async def get_metric(
    request: Request,
    caller: Annotated[Caller, needs("metrics.read")],
    name: str,
    label: Annotated[
        list[Label] | None,
        Query(max_length=20, description="Only series with this label: `name=value`; several values of one: any."),
    ] = None,
    start: Ms = None,
    end: Ms = None,
    points: Points = 300,
    series: Series = 20,
) -> Reply[MetricChart]:
    """Return the points of a chart: of the last hour, or of a span. The server chooses their distance.

    Values are kept every ten seconds for days, every five minutes for months and every hour for years.
    """
    await context_of(request).services.platform.require_leader()
    query = _query(request, name, (start, end), (points, series), _matchers(label or ()))
    return reply(shapes.chart(query, await _answer(request, query)))


@router.serves("GET /api/v2/jobs/{job}/metrics", "Show what a job used from its start on", "NoMetricError")
async def get_job_metrics(
    request: Request,
    caller: Annotated[Caller, needs("job.read")],
    job: str,
    name: Names = None,
    role: Annotated[str, Query(max_length=LABEL_MAX, description="Only tasks of this task role.")] = "",
    index: Annotated[int | None, Query(ge=0, le=1_000_000, description="Only the task with this index.")] = None,
    start: Ms = None,
    end: Ms = None,
    points: Points = 300,
    series: Series = 20,
) -> Reply[JobMetrics]:
    """Return charts of what the tasks of a job used: processors, memory, GPUs and progress, unless names are given.

    The names are those of the metrics that begin with `task_`, one series for each task or GPU, and `pai_job_`.
    """
    row = await job_for(request, caller, job)
    services = context_of(request).services
    await services.platform.require_leader()
    labels = {"job_name": row.full_name, "job_instance_id": row.id, "role_name": role}
    labels["task_index"] = "" if index is None else str(index)
    matchers = matching({label: value for label, value in labels.items() if value})
    begun_ms = row.submitted_at_ms if row.started_at_ms is None else row.started_at_ms
    span = (begun_ms if start is None else start, row.ended_at_ms if end is None else end)
    charts = []
    for one in name or JOB_NAMES:
        if one not in _JOB_METRICS:
            raise _unknown(one)
        query = _query(request, one, span, (points, series), matchers)
        charts.append(shapes.chart(query, await _answer(request, query)))
    return reply({"charts": charts})


@router.serves("GET /api/v2/jobs/{job}/efficiency", "Show how much of what it asked for a job used")
async def get_job_efficiency(
    request: Request, caller: Annotated[Caller, needs("job.read")], job: str
) -> Reply[JobEfficiency]:
    """Return for each task role what a task asked for and used from the job's start on, and advice in words.

    A value that was not measured is null and leads to no advice; so does a job that was measured for less than five
    minutes. Of many tasks, 256 are looked at.
    """
    row = await job_for(request, caller, job)
    context = context_of(request)
    spec = await spec_of(context, row)
    await context.services.platform.require_leader()
    matchers = matching({"job_name": row.full_name, "job_instance_id": row.id})
    found = shapes.Measured()
    if row.started_at_ms is not None:
        for name in shapes.EFFICIENCY_NAMES:
            span, most = (row.started_at_ms, row.ended_at_ms), (EFFICIENCY_POINTS, EFFICIENCY_SERIES)
            found.add(name, await _answer(request, _query(request, name, span, most, matchers)))
    roles = await asyncio.to_thread(found.efficiency, spec.task_roles)
    return reply(shapes.efficiency(roles, found.measured_ms, is_over=row.ended_at_ms is not None))


def _metrics(request: Request) -> Metrics:
    metrics = context_of(request).services.metrics
    if metrics is None:
        raise Unavailable("this server measures nothing")
    return metrics


async def _answer(request: Request, query: SeriesQuery) -> Answer:
    answer = await _metrics(request).range(query)
    if answer.matched > SERIES_READ and not answer.series:
        message = f"{query.name} has {answer.matched:,} such series, more than are read of another server for a chart"
        raise InvalidParameters(message, "narrow it by labels, such as --label job_name=USER~JOB")
    return answer


def _query(
    request: Request,
    name: str,
    span: tuple[int | None, int | None],
    most: tuple[int, int],
    matchers: tuple[Matcher, ...],
) -> SeriesQuery:
    if name not in METRICS:
        raise _unknown(name)
    now_ms = context_of(request).services.clock.now_ms()
    end_ms = now_ms if span[1] is None else span[1]
    start_ms = end_ms - HOUR_MS if span[0] is None else span[0]
    if start_ms > end_ms:
        raise invalid("the start must not be after the end")
    # A round that is just over belongs to the step that is still open.
    end_ms = max(end_ms, start_ms + 1)
    step_ms = chart_step_ms(start_ms, end_ms, most[0])
    return SeriesQuery(name, matchers, start_ms, end_ms, step_ms, most[1])


def _matchers(labels: list[str] | tuple[str, ...]) -> tuple[Matcher, ...]:
    wanted: dict[str, set[str]] = {}
    for label in labels:
        name, is_given, value = label.partition("=")
        if not is_given or not name.isidentifier() or not name.isascii():
            raise invalid(f"label: {label[:100]!r} is not of the form name=value")
        (one,) = matching({name: value})
        wanted.setdefault(name, set()).update(one.values)
    return tuple(Matcher(name, "=", frozenset(values)) for name, values in wanted.items())


def _unknown(name: str) -> Refused:
    return Refused("NoMetricError", f"there is no metric {name[:100]!r}", "`pai metrics list` shows them")
