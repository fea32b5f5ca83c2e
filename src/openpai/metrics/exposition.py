"""The newest round as Prometheus's text, through its own library, which escapes what users put into labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from openpai.protocol.errors import Unavailable
from openpai.series.catalogue import METRICS
from openpai.series.labels import Labels
from openpai.series.rounds import Round, published

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ALIASES: Mapping[str, str] = {
    "DCGM_FI_DEV_GPU_UTIL": "nvidiasmi_utilization_gpu",
    "DCGM_FI_DEV_GPU_TEMP": "nvidiasmi_temperature",
}
"""Names that OpenPAI's dashboards and rules ask for, of what is kept under DCGM's."""


def exposed(now: Round, buckets: Sequence[tuple[float, int]] = (), seconds: float = 0.0) -> bytes:
    """Return the text of a round, with the histogram of API requests: bounds and counts, the last one without bound."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError as error:
        message = "the Python package prometheus-client is not installed"
        raise Unavailable(message, "an administrator has to run: pip install prometheus-client") from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(now, buckets, seconds))
    return bytes(generate_latest(registry))


class _Collector:
    """What `prometheus_client` asks for metrics."""

    def __init__(self, now: Round, buckets: Sequence[tuple[float, int]], seconds: float) -> None:
        self._now = now
        self._buckets = buckets
        self._seconds = seconds

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples."""
        from prometheus_client.core import HistogramMetricFamily

        by_name: dict[str, list[tuple[Labels, float]]] = {}
        for name, labels, value in published(self._now):
            by_name.setdefault(name, []).append((labels, value))
        for name, samples in sorted(by_name.items()):
            yield _family(name, name, samples)
            if name in _ALIASES:
                renamed = [
                    (Labels.of({**labels.values, "minor_number": labels.get("gpu")}), v) for labels, v in samples
                ]
                yield _family(name, _ALIASES[name], renamed)
        if self._buckets:
            text = "How long requests of the API took until their answer began."
            family = HistogramMetricFamily("pai_api_request_duration_seconds", text)
            total, found = 0, []
            for bound, count in self._buckets:
                total += count
                found.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(total)))
            family.add_metric([], found, self._seconds)
            yield family


def _family(metric: str, name: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    # OpenPAI's counters have names that Prometheus's library gives to gauges alone.
    is_counter = METRICS[metric].kind == "counter" and name.endswith("_total")
    text = METRICS[metric].help
    family: Metric = CounterMetricFamily(name, text) if is_counter else GaugeMetricFamily(name, text)
    for labels, value in samples:
        family.add_sample(name, dict(labels.pairs), value)
    return family
