"""Documents of what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from openpai.series.catalogue import METRICS
from openpai.series.model import Answer, Query, Series
from openpai.series.rounds import Round
from openpai.wire import metrics as wire


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
