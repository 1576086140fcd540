"""The example with OpenTelemetry: every request is a span, and the log has its trace id."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

pytest.importorskip("opentelemetry.instrumentation.asgi", reason="OpenTelemetry is absent")
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tracing.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("tracing", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_request_is_a_span_whose_trace_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    exporter = InMemorySpanExporter()
    app = load().app(exporter)
    caplog.set_level(logging.INFO, "rmreader.server")
    asked = {"question": "Who wrote it?", "passage": "It was written by Ada Lovelace."}
    with TestClient(app, base_url="http://localhost") as client:
        answer = client.post("/v1/answer", json=asked)
    assert answer.status_code == 200
    app.tracer.span_processor.force_flush()
    spans = [span for span in exporter.get_finished_spans() if "/v1/answer" in span.name]
    assert len(spans) == 1
    logged = [record.fields for record in caplog.records if record.getMessage() == "request"]  # type: ignore[attr-defined]
    assert logged[0]["trace_id"] == format(spans[0].context.trace_id, "032x")
    assert "Lovelace" not in str(spans[0].to_json())
