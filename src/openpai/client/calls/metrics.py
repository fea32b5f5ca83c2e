"""What is measured: metrics of the platform, and what jobs used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openpai.client import model
from openpai.client.calls.naming import Naming, segment
from openpai.client.calls_core import Call, asks, listed, query_of, whole


class Metrics(Naming):
    """What is measured."""

    @asks
    def metrics(self) -> Call[tuple[model.MetricInfo, ...]]:
        """Return every metric of the platform, for administrators."""
        return Call("GET", "/metrics", listed(model.MetricInfo.read, "metrics"))

    @asks
    def metric(
        self,
        name: str,
        labels: Mapping[str, str | Sequence[str]] | None = None,
        *,
        start_ms: int | None = None,
        end_ms: int | None = None,
        points: int | None = None,
        series: int | None = None,
    ) -> Call[model.MetricChart]:
        """Return the past of a metric, of the last hour unless a span is given; several values of a label mean any."""
        words = [
            f"{label}={one}"
            for label, value in (labels or {}).items()
            for one in ((value,) if isinstance(value, str) else value)
        ]
        params = {**query_of(start=start_ms, end=end_ms, points=points, series=series), "label": words}
        return Call("GET", f"/metrics/{segment(name, 'a metric')}", whole(model.MetricChart.read), params)

    @asks
    def job_metrics(
        self,
        job: str,
        names: Sequence[str] = (),
        *,
        role: str = "",
        index: int | None = None,
        start_ms: int | None = None,
        end_ms: int | None = None,
        points: int | None = None,
        series: int | None = None,
    ) -> Call[tuple[model.MetricChart, ...]]:
        """Return charts of what the tasks of a job used from its start on, or in a span.

        The names are those of metrics that begin with `task_` and `pai_job_`; without any, the most telling ones.
        """
        span = query_of(role=role, index=index, start=start_ms, end=end_ms, points=points, series=series)
        return Call(
            "GET",
            f"{self.path(job)}/metrics",
            listed(model.MetricChart.read, "charts"),
            {**span, **({"name": list(names)} if names else {})},
        )

    @asks
    def job_efficiency(self, job: str) -> Call[model.JobEfficiency]:
        """Return how much of what it asked for a job used, with advice in words."""
        return Call("GET", f"{self.path(job)}/efficiency", whole(model.JobEfficiency.read))
