"""Sends traces to an OpenTelemetry collector, if the settings name one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from openpai.app.settings import Settings
from openpai.protocol.errors import BadConfiguration
from openpai.system import tracing
from openpai.system.tracing import Span, Value

if TYPE_CHECKING:
    from opentelemetry import trace


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
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        advice = "install it with: pip install 'openpai[traces]'"
        raise BadConfiguration(f"--traces-url needs {error.name}", advice) from error
    about = Resource.create({"service.name": "openpai", "service.version": version("openpai")})
    sampler = ParentBased(TraceIdRatioBased(settings.traces_ratio))
    provider = TracerProvider(resource=about, sampler=sampler, shutdown_on_exit=False)
    # It sends from a thread of its own, keeps a bounded number of spans, and drops the rest.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{settings.traces_url.rstrip('/')}/v1/traces")))
    tracing.install(_OpenTelemetry(provider.get_tracer("openpai")))
    try:
        yield
    finally:
        tracing.install(None)
        provider.shutdown()


class _OpenTelemetry:
    """`system.tracing.Tracer` over OpenTelemetry."""

    def __init__(self, tracer: trace.Tracer) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, headers: Mapping[str, str] | None, attributes: Mapping[str, Value]) -> Iterator[Span]:
        context = self._propagator.extract(headers) if headers is not None else None
        # The text of an error may hold what nobody else should read.
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
