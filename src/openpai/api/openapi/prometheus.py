"""Queries in Prometheus's language."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import prometheus

OPERATIONS: Final[dict[str, Operation]] = {
    "GET /prometheus/api/v1/query": Operation("queryMetrics", "Answer a query of Prometheus", prometheus.Metrics),
    "GET /prometheus/api/v1/query_range": Operation(
        "queryMetricsOverTime", "Answer a query over a span of time", prometheus.Metrics
    ),
}
