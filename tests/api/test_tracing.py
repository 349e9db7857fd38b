"""Traces of requests reach a collector; without a collector no request makes a span."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from service.api.app import create_web
from service.api.tracing import fault_of, is_enabled, open_tracing
from service.metrics.figures import STAGES
from service.server import create_app
from service.tasks.context import RequestContext
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import AnyServer, make_settings, translation
from tests.workers import LIMIT_SECONDS, Script, Threads, until

SECRET = "Rumpelstiltskin"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
UNSAMPLED = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-00"}


class Collector:
    """A collector of traces, in a thread."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    @property
    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in [*self.bodies]]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def until_span(self, name: str) -> Span:
        until(lambda: any(span.name == name for span in self.spans))
        return next(span for span in self.spans if span.name == name)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    found = Collector()
    found.thread.start()
    address = f"http://127.0.0.1:{found.server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield found
    found.server.shutdown()
    found.thread.join()
    found.server.server_close()


def attributes(span: Span) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, str(each.value.WhichOneof("value")))
        for each in span.attributes
    }


def send(server: AnyServer, headers: dict[str, str]) -> httpx.Response:
    return server.post("/translate", json=translation("The cat."), headers=headers)


def test_tracing_is_closed_although_the_lifespan_fails(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    class Tracing:
        async def close(self) -> None:
            closed.append(True)

    @asynccontextmanager
    async def failing(_app: FastAPI) -> AsyncIterator[None]:
        yield
        raise OSError("lifespan")

    monkeypatch.setattr("service.api.app.open_tracing", lambda _environment: Tracing())
    whole = create_app(make_settings(), Threads(script.load, script.load_embedder))
    app = create_web(whole.services, failing)

    async def run() -> None:
        async with app.router.lifespan_context(app):
            pass

    with pytest.raises(OSError, match="lifespan"):
        asyncio.run(run())
    assert closed == [True]


def test_request_has_a_span_with_a_child_for_each_stage(
    serve_any: ServeAny, collector: Collector
) -> None:
    server = serve_any()
    assert send(server, TRACEPARENT).status_code == 200
    span = collector.until_span("POST /translate")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE_ID, PARENT_ID)
    stages = [each for each in collector.spans if each.parent_span_id == span.span_id]
    assert {each.name for each in stages} == set(STAGES)
    for stage in stages:
        assert stage.trace_id == span.trace_id
        assert span.start_time_unix_nano <= stage.start_time_unix_nano
        assert stage.end_time_unix_nano <= span.end_time_unix_nano
    starts = {each.name: each.start_time_unix_nano for each in stages}
    order = ("validate", "tokenize", "queue", "device", "detokenize", "serialize")
    assert sorted(starts, key=starts.__getitem__) == [*order]


def test_span_has_the_labels_of_the_metrics_and_no_text_key_or_address(
    serve: Serve, collector: Collector
) -> None:
    server = serve(api_keys="secret-key")
    path = f"/translate?q={SECRET}"
    headers = {"Authorization": "Bearer secret-key", "X-Forwarded-For": "192.0.2.7", **TRACEPARENT}
    body = {"q": SECRET, "source": "en", "target": "pt"}
    assert server.post(path, json=body, headers=headers).status_code == 200
    span = collector.until_span("POST /translate")
    found = attributes(span)
    del found["regard.request_id"]
    assert found == {
        "http.request.method": "POST",
        "http.route": "/translate",
        "http.response.status_code": 200,
        "regard.task": "translate",
        "regard.model": "en-pt",
        "regard.outcome": "ok",
        "regard.inputs": 1,
    }
    for body_ in collector.bodies:
        for word in (SECRET, "secret-key", "192.0.2.7", "127.0.0.1"):
            assert word.encode() not in body_


def test_failed_request_has_a_span_with_the_error(
    serve: Serve, script: Script, collector: Collector
) -> None:
    server = serve(request_timeout_seconds=0.05)
    script.may_finish.clear()
    assert server.translate("The cat.").status_code == 504
    script.may_finish.set()
    span = collector.until_span("POST /translate")
    assert attributes(span)["error.type"] == "deadline"
    assert span.status.code == span.status.STATUS_CODE_ERROR


def test_unsampled_requests_and_requests_that_are_not_counted_send_nothing(
    serve: Serve, collector: Collector
) -> None:
    server = serve()
    send(server, UNSAMPLED)
    server.get("/health/live", headers=TRACEPARENT)
    server.get(f"/{SECRET}", headers=TRACEPARENT)
    server.post("/detect", json={"q": "The cat."}, headers=TRACEPARENT)
    collector.until_span("POST /detect")
    assert {span.name for span in collector.spans} - {*STAGES} == {"POST /detect"}


def test_histograms_have_the_trace_as_an_exemplar_in_openmetrics(
    serve_any: ServeAny, collector: Collector
) -> None:
    server = serve_any()
    send(server, TRACEPARENT)
    server.until_answered()
    response = server.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1")
    assert exemplars(response.text) == {
        "regard_request_duration_seconds_bucket": {TRACE_ID},
        "regard_stage_duration_seconds_bucket": {TRACE_ID},
    }
    plain = server.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert TRACE_ID not in plain.text


def exemplars(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.exemplar:
                found.setdefault(sample.name, set()).add(sample.exemplar.labels["trace_id"])
    return found


def test_openmetrics_without_traces_has_no_exemplars(serve: Serve) -> None:
    server = serve()
    send(server, TRACEPARENT)
    accept = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.5,*/*;q=0.1"
    response = server.get("/metrics", headers={"Accept": accept})
    assert response.text.endswith("# EOF\n")
    assert exemplars(response.text) == {}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_standard_variables_switch_tracing(environment: dict[str, str], expected: bool) -> None:
    assert is_enabled(environment) is expected
    assert fault_of(environment) is None
    if not expected:
        assert open_tracing(environment) is None


def test_missing_package_and_other_protocols_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}
    grpc = fault_of({**environment, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert grpc == "OTEL_EXPORTER_OTLP_PROTOCOL is grpc; only http/protobuf is supported"
    for protocols in (("", ""), ("grpc", "http/protobuf")):
        names = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        assert fault_of({**environment, **dict(zip(names, protocols, strict=True))}) is None
    monkeypatch.setattr("service.api.tracing.is_installed", lambda _: False)
    fault = fault_of(environment)
    assert fault is not None
    assert "install regard[otel]" in fault
    assert fault_of({}) is None


def test_server_without_traces_imports_no_sdk_of_opentelemetry() -> None:
    code = "import service.cli, sys; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_silent_collector_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(LIMIT_SECONDS))
        tracing = open_tracing(os.environ)
        assert tracing is not None
        scope = {"method": "POST", "path": "/translate", "headers": []}
        context = RequestContext("id", task="translate")
        span = tracing.begin(scope, context)
        assert span is not None
        span.end(context, 200)
        began = time.monotonic()
        asyncio.run(tracing.close())
        assert time.monotonic() - began < LIMIT_SECONDS / 2
