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
_ALIASES: Mapping[str, Sequence[str]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("nvidiasmi_utilization_gpu", "gpu_utilization"),
    "DCGM_FI_DEV_GPU_TEMP": ("nvidiasmi_temperature",),
    "DCGM_FI_DEV_PSTATE": ("nvidiasmi_performance_state",),
}
"""Names that OpenPAI's dashboards and rules ask for, of what is kept under DCGM's."""
_USED, _FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_OF_MEMORY: Sequence[str] = ("nvidiasmi_utilization_memory", "gpu_mem_utilization")
_MEMORY = "How much of the memory of a GPU is used (in %)."


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
            for alias in _ALIASES.get(name, ()):
                yield _family(name, alias, _renamed(samples))
        free = dict(by_name.get(_FREE, ()))
        shares = [
            (labels, used / (used + free[labels]) * 100)
            for labels, used in by_name.get(_USED, ())
            if labels in free and used + free[labels] > 0
        ]
        for alias in _OF_MEMORY if shares else ():
            yield _gauges(alias, _MEMORY, _renamed(shares))
        if self._buckets:
            text = "How long requests of the API took until their answer began."
            family = HistogramMetricFamily("pai_api_request_duration_seconds", text)
            total, found = 0, []
            for bound, count in self._buckets:
                total += count
                found.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(total)))
            family.add_metric([], found, self._seconds)
            yield family


def _renamed(samples: Sequence[tuple[Labels, float]]) -> list[tuple[Labels, float]]:
    """Return values of devices with the label by which OpenPAI knew them."""
    return [(Labels.of({**labels.values, "minor_number": labels.get("gpu")}), value) for labels, value in samples]


def _family(metric: str, name: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    # OpenPAI's counters have names that Prometheus's library gives to gauges alone.
    if METRICS[metric].kind == "counter" and name.endswith("_total"):
        return _with(CounterMetricFamily(name, METRICS[metric].help), name, samples)
    return _gauges(name, METRICS[metric].help, samples)


def _gauges(name: str, text: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return _with(GaugeMetricFamily(name, text), name, samples)


def _with(family: Metric, name: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    for labels, value in samples:
        family.add_sample(name, dict(labels.pairs), value)
    return family
