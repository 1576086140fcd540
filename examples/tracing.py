"""The app with OpenTelemetry: a span for every request, and the same trace id in rmreader's own log.

    pip install 'rmreader[serve]' opentelemetry-sdk opentelemetry-instrumentation-asgi
    uvicorn --factory tracing:app --app-dir examples

Spans are printed here. To send them to a collector, install ``opentelemetry-exporter-otlp``, put its
``OTLPSpanExporter`` in the place of ``ConsoleSpanExporter`` and name the collector by
``OTEL_EXPORTER_OTLP_ENDPOINT``. A span has the route and the status; no question and no text.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

import rmreader.server


def app(exporter: SpanExporter | None = None) -> OpenTelemetryMiddleware:
    """The app, with a span around every request."""
    provider = TracerProvider(resource=Resource.create({"service.name": "rmreader"}))
    provider.add_span_processor(BatchSpanProcessor(exporter or ConsoleSpanExporter()))
    inner = WithTraceparent(rmreader.server.app())
    # Without spans for each piece of a body: one request, one span.
    return OpenTelemetryMiddleware(inner, tracer_provider=provider, exclude_spans=["receive", "send"])


class WithTraceparent:
    """Tells the app the trace that the span began, so that its log has it too."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Put the current span's ``traceparent`` among the headers."""
        if scope["type"] == "http" and trace.get_current_span().get_span_context().is_valid:
            carried: dict[str, str] = {}
            propagate.inject(carried)
            headers = [pair for pair in scope["headers"] if pair[0] != b"traceparent"]
            headers.append((b"traceparent", carried["traceparent"].encode()))
            scope = {**scope, "headers": headers}
        await self.app(scope, receive, send)
