"""Makes OpenTelemetry spans of requests and their stages.

No attribute contains a text, a key or an address.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from service.tasks.context import RequestContext, StageTimes

CLOSE_LIMIT_SECONDS = 2.0  # longest time that a stopping server waits for the collector
PROPAGATED = (b"traceparent", b"tracestate")


class OtlpTracing:
    """Makes the spans of requests. A background thread sends the spans to the collector.

    OpenTelemetry's SDK reads the endpoint, the sampler and the limits from the environment.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        attributes = {"service.version": version("regard")}
        named = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        if not environment.get("OTEL_SERVICE_NAME") and "service.name=" not in named:
            attributes["service.name"] = "regard"
        self.provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self.provider.get_tracer("regard", version("regard"))
        self.propagator = TraceContextTextMapPropagator()

    def begin(self, scope: Scope, context: RequestContext) -> "OtlpSpan | None":
        """Returns the span of a request that has arrived; None if the request is not sampled."""
        carrier = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in PROPAGATED
        }
        span = self.tracer.start_span(
            f"{scope['method']} {scope['path']}",
            self.propagator.extract(carrier),
            SpanKind.SERVER,
            {"http.request.method": scope["method"], "http.route": scope["path"]},
        )
        if not span.is_recording():
            return None
        context.times = StageTimes(trace.format_trace_id(span.get_span_context().trace_id))
        return OtlpSpan(self.tracer, span, context.times)

    async def close(self) -> None:
        thread = threading.Thread(target=self.provider.shutdown, daemon=True)
        thread.start()
        await asyncio.to_thread(thread.join, CLOSE_LIMIT_SECONDS)


@dataclass(slots=True, eq=False)
class OtlpSpan:
    tracer: Tracer | trace.Tracer
    span: Span
    times: StageTimes

    def end(self, context: RequestContext, status: int) -> None:
        """Ends the span, and adds a span for each stage, from its first start to its last end."""
        offset = time.time_ns() - time.perf_counter_ns()
        parent = trace.set_span_in_context(self.span)
        for name, (start, end) in self.times.intervals.items():
            seconds = {"regard.stage_seconds": context.stages[name]}
            begin = offset + int(start * 1e9)
            stage = self.tracer.start_span(name, parent, attributes=seconds, start_time=begin)
            stage.end(offset + int(end * 1e9))
        self.span.set_attributes(
            {
                "http.response.status_code": status,
                "regard.task": context.task or "",
                "regard.model": context.model,
                "regard.outcome": context.outcome,
                "regard.inputs": context.num_inputs,
                "regard.request_id": context.request_id,
            }
        )
        if status >= 500:
            self.span.set_attribute("error.type", context.outcome)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()
