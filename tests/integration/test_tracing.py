"""Traces reach a collector of OpenTelemetry, with the caller's trace and nothing secret; off, they cost nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext
from structlog.testing import capture_logs

from openpai.app.settings import Settings
from openpai.app.settings_check import check
from openpai.app.tracing import Collector as Spans
from openpai.app.tracing import traces
from openpai.protocol.errors import Refused
from openpai.system import tracing
from tests.ports import free_port

from .api_world import World
from .test_api_forwarding import follower

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
A_SPAN = ReadableSpan(
    "a",
    context=SpanContext(1, 2, is_remote=False),
    resource=Resource({"service.name": "openpai"}),
    start_time=1,
    end_time=2,
)
TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")


class Collector:
    """An OTLP receiver."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        collector = self

        class Receive(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    named = {one.key: one.value.string_value for one in resource.resource.attributes}
                    collector.services.add(named["service.name"])
                    for scope in resource.scope_spans:
                        collector.spans.extend(scope.spans)
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.end_headers()

            def log_message(self, *message: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Receive)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def settings(self) -> Settings:
        return Settings(Path("/data"), traces_url=f"http://127.0.0.1:{self.server.server_port}/")

    def named(self, name: str) -> Any:
        """Return the one span of a name."""
        (found,) = [one for one in self.spans if one.name == name]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.int_value or one.value.string_value for one in span.attributes}


async def test_a_request_continues_the_trace_of_its_caller(world: World, collector: Collector) -> None:
    headers = {**await world.login("ann"), "traceparent": PARENT, "X-Request-ID": "r1"}
    with traces(collector.settings):
        await world.http.get("/api/v2/jobs/ann~none?password=hunter2", headers=headers)
        await world.http.get("/api/v2/nowhere")
    request = collector.named("GET /api/v2/jobs/{job}")
    assert (request.trace_id, request.parent_span_id.hex()) == (TRACE, "b7ad6b7169203331")
    assert attributes(request) == {
        "http.request.method": "GET", "http.route": "/api/v2/jobs/{job}", "http.response.status_code": 404,
        "pai.request_id": "r1",
    }  # fmt: skip
    assert any(one.parent_span_id == request.span_id for one in collector.spans if one.name == "database.read")
    assert collector.named("GET").trace_id != TRACE
    assert collector.services == {"openpai"}
    assert "hunter2" not in str(collector.spans)
    assert headers["Authorization"].partition(" ")[2] not in str(collector.spans)


async def test_the_leader_continues_the_trace_of_a_forwarded_request(world: World, collector: Collector) -> None:
    headers = {**await world.login("ann"), "traceparent": PARENT}
    with traces(collector.settings):
        async with follower(world) as http:
            assert (await http.get("/api/v2/nodes", headers=headers)).status_code == 200
    asked, led = sorted(
        (one for one in collector.spans if one.name == "GET /api/v2/nodes"), key=lambda one: -one.end_time_unix_nano
    )
    assert asked.parent_span_id.hex() == "b7ad6b7169203331"
    assert (led.trace_id, led.parent_span_id) == (TRACE, asked.span_id)


def test_an_error_leaves_its_kind_and_not_its_text(collector: Collector) -> None:
    with traces(collector.settings), pytest.raises(KeyError), tracing.span("pass"):
        raise KeyError("hunter2")
    assert attributes(collector.named("pass")) == {"error.type": "KeyError"}
    assert "hunter2" not in str(collector.spans)


def test_a_part_of_the_traces_may_be_sent(collector: Collector) -> None:
    with traces(replace(collector.settings, traces_ratio=0.0)):
        with tracing.span("left out"):
            pass
        with tracing.span("wanted", [(b"traceparent", PARENT.encode())]):
            pass
    assert [one.name for one in collector.spans] == ["wanted"]


def test_without_a_collector_nothing_is_made() -> None:
    with traces(Settings(Path("/data"))), tracing.span("a", x=1) as first:
        assert tracing.span("b") is tracing.NO_SPAN
        assert tracing.continued() == {}
        first.note(y=2)


async def test_a_collector_that_is_away_delays_no_request(world: World) -> None:
    with traces(Settings(Path("/data"), traces_url="http://127.0.0.1:9")):
        assert (await world.http.get("/healthz")).status_code == 200
        tracing.install(None)


def test_the_log_says_once_that_the_collector_is_away_and_when_it_is_back(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    url, now_s = f"http://127.0.0.1:{free_port()}/v1/traces", [0.0]
    exporter = OTLPSpanExporter(url, timeout=0.01)
    spans = Spans(exporter, is_sent=lambda result: result is SpanExportResult.SUCCESS, clock_s=lambda: now_s[0])
    library = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    with spans.in_place_of(library), capture_logs() as logs:
        for _ in range(3):
            spans.export([A_SPAN, A_SPAN])
        now_s[0] = 3601
        spans.export([A_SPAN])
        exporter._client._endpoint = f"{collector.settings.traces_url}v1/traces"
        exporter._client._timeout = 60
        for _ in range(2):
            spans.export([A_SPAN])
    assert [(one["event"], one["spans_lost"]) for one in logs] == [
        ("traces cannot be sent to the collector", 2),
        ("traces cannot be sent to the collector", 7),
        ("the collector of traces answers again", 7),
    ]
    assert "refused" in logs[0]["error"] or "timeout" in logs[0]["error"]
    assert caplog.records == []
    assert library.filters == []


@pytest.mark.parametrize("wrong", [{"traces_url": "127.0.0.1:4318"}, {"traces_ratio": 1.5}, {"traces_ratio": -1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="--traces-"):
        check(Settings(Path("/data"), **wrong))


@pytest.mark.slow
def test_a_server_without_traces_does_not_load_the_library() -> None:
    code = "import sys, openpai.app.serve; sys.exit(any('opentelemetry.sdk' in name for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_what_only_requests_need_is_not_loaded_before_a_server_leads() -> None:
    late = {
        "fastapi", "starlette", "uvicorn", "httpx", "openpai.api.app", "openpai.app.entrances", "openpai.storage.kinds",
    }  # fmt: skip
    code = f"import sys, openpai.app.serve; sys.exit(' '.join({late!r} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_library_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Refused) as refusal, traces(collector.settings):
        pass
    assert "openpai[traces]" in refusal.value.advice
