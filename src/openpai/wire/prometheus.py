"""Answers in Prometheus's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from openpai.wire.doc import Doc, Document


class MetricsData(Document):
    """The result of a query, with a row for each node."""

    resultType: Literal["vector", "matrix"]
    result: Annotated[
        Sequence[Mapping[str, Any]],
        Doc(example=[{"metric": {"instance": "10.0.0.1:9100"}, "value": [1_760_000_000, "62.5"]}]),
    ]


class Metrics(Document):
    """Prometheus's answer to a query."""

    status: Literal["success"]
    data: MetricsData
    warnings: Annotated[
        Sequence[str], Doc(example=["the values are what jobs hold of each node; real use is not measured"])
    ]
