"""Sends traces to an OpenTelemetry collector, if the settings name one.

A collector that is away costs its spans and nothing else. The log says it once, each hour again how many were lost, and
when the collector is back; the library would say it several times with each batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from openpai.app.settings import Settings
from openpai.protocol.errors import BadConfiguration
from openpai.system import tracing
from openpai.system.tracing import Span, Value

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

log: Final = structlog.get_logger(__name__)
AGAIN_S: Final = 3600.0
_LIBRARY: Final = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")
"""The loggers of the library that speak of each batch."""


@contextmanager
def traces(settings: Settings) -> Iterator[None]:
    """Trace the server while this is open; do nothing without `--traces-url`. Raises Refused without the library."""
    if settings.traces_url is None:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        advice = "install it with: pip install 'openpai[traces]'"
        raise BadConfiguration(f"--traces-url needs {error.name}", advice) from error
    about = Resource.create({"service.name": "openpai", "service.version": version("openpai")})
    sampler = ParentBased(TraceIdRatioBased(settings.traces_ratio))
    provider = TracerProvider(resource=about, sampler=sampler, shutdown_on_exit=False)
    collector = Collector(
        OTLPSpanExporter(f"{settings.traces_url.rstrip('/')}/v1/traces"),
        is_sent=lambda result: result is SpanExportResult.SUCCESS,
    )
    with ExitStack() as stack:
        for name in _LIBRARY:
            stack.enter_context(collector.in_place_of(logging.getLogger(name)))
        # It sends from a thread of its own, keeps a bounded number of spans, and drops the rest.
        provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", collector)))
        tracing.install(_OpenTelemetry(provider.get_tracer("openpai")))
        try:
            yield
        finally:
            tracing.install(None)
            provider.shutdown()


class Collector:
    """An exporter of spans that says once when the collector is away, and when it is back."""

    def __init__(
        self,
        exporter: SpanExporter,
        is_sent: Callable[[object], bool],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exporter = exporter
        self._is_sent = is_sent
        self._clock_s = clock_s
        self._lost = 0
        self._is_away = False
        self._said_at_s = 0.0
        self._reason = ""

    def export(self, spans: Sequence[ReadableSpan]) -> Any:
        """Send spans, and log when the collector stops or begins to answer."""
        self._reason = ""
        result = self._exporter.export(spans)
        if self._is_sent(result):
            if self._is_away:
                log.info("the collector of traces answers again", spans_lost=self._lost)
            self._is_away, self._lost = False, 0
            return result
        self._lost += len(spans)
        now_s = self._clock_s()
        if not self._is_away or now_s - self._said_at_s >= AGAIN_S:
            log.warning("traces cannot be sent to the collector", error=self._reason, spans_lost=self._lost)
            self._said_at_s = now_s
        self._is_away = True
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Send what is kept; nothing is."""
        return self._exporter.force_flush(timeout_millis)

    @contextmanager
    def in_place_of(self, logger: logging.Logger) -> Iterator[None]:
        """Keep the messages of the library's logger out of the log; the reason is taken from them."""
        logger.filters.insert(0, self._take)
        try:
            yield
        finally:
            logger.filters.remove(self._take)

    def _take(self, record: logging.LogRecord) -> bool:
        if "Queue full" in str(record.msg):
            self._lost += 1
        elif not self._reason:
            self._reason = record.getMessage()[:500]
        return False


class _OpenTelemetry:
    """`system.tracing.Tracer` over OpenTelemetry."""

    def __init__(self, tracer: trace.Tracer) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, headers: Mapping[str, str] | None, attributes: Mapping[str, Value]) -> Iterator[Span]:
        context = self._propagator.extract(headers) if headers is not None else None
        # The text of an error may hold what only its user may read.
        with self._tracer.start_as_current_span(
            name, context, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as begun:
            span = _Span(begun)
            try:
                yield span
            except BaseException as error:
                span.note(**{"error.type": type(error).__name__})
                raise

    def headers(self) -> Mapping[str, str]:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier


class _Span:
    def __init__(self, begun: Any) -> None:
        self._begun = begun

    def name(self, name: str) -> None:
        self._begun.update_name(name)

    def note(self, **attributes: Value) -> None:
        self._begun.set_attributes(attributes)
