"""One line of JSON a request, without a word of what was asked."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from rmreader.server.logs import JsonLines


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonLines().format(record)) for record in caplog.records if record.name.startswith("rmreader")]


def test_a_request_leaves_one_line_with_its_id(
    server: Any, passage: str, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "rmreader.server"):
        server.post("/v1/answer", {"question": "Who?", "passage": passage}, headers={"x-request-id": "one-1"})
        server.client.get("/v1/nothing?secret=1")
        until(lambda: len(lines(caplog)) == 2)  # a line follows its response
    first, second = lines(caplog)
    assert (
        first.items()
        >= {"event": "request", "id": "one-1", "method": "POST", "path": "/v1/answer", "status": 200}.items()
    )
    assert first["ms"] > 0
    assert first["bytes"] > len(passage)
    assert second["status"] == 404
    assert second["path"] == "/v1/nothing"  # the query stays out


def test_no_line_holds_what_was_asked(start: Any, until: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Quoting:
        def ask_many(self, pairs: Any, **options: Any) -> Any:
            raise ValueError(f"cannot read {list(pairs)}")

    word, server = "xylophonist", start(Quoting(), max_passage=500)
    with caplog.at_level(logging.DEBUG, "rmreader"):
        assert server.post("/v1/answer", {"question": word, "passage": word}).status_code == 500
        assert server.post("/v1/answer", {"question": word, "passage": word * 100}).status_code == 413
        assert server.post("/v1/answer", {"question": word, "passage": word, word: word}).status_code == 422
        server.client.post("/v1/answer", content=word.encode())
        until(lambda: len(lines(caplog)) == 5)
    logged = lines(caplog)
    failed = next(line for line in logged if line["event"] == "failed")
    assert failed["error"] == "ValueError"
    assert any("ask_many" in place for place in failed["at"])
    assert word not in json.dumps(logged)


def test_the_trace_id_of_the_caller_is_logged(server: Any, until: Any, caplog: pytest.LogCaptureFixture) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = [f"00-{trace}-00f067aa0ba902b7-01", f"00-{trace}-1-01", 'x"}\\n', ""]
    with caplog.at_level(logging.INFO, "rmreader.server"):
        for header in headers:
            server.client.get("/livez", headers={"traceparent": header})
        until(lambda: len(lines(caplog)) == len(headers))
    assert [line.get("trace_id") for line in lines(caplog)] == [trace, None, None, None]
