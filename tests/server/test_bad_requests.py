"""Whatever is sent, the answer is a sentence and never a 500."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

GOOD = {"question": "Who?", "passage": "Ann went home."}
DEEP = "[" * 100_000
ODD_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "a bare word": b"hello",
    "null": b"null",
    "a number": b"3",
    "a list": b"[]",
    "a string": b'"question"',
    "an empty object": b"{}",
    "cut short": b'{"question": "Who?", "passage": "Ann',
    "two documents": b"{} {}",
    "bad UTF-8": b'{"question": "\xff\xfe", "passage": "x"}',
    "a lone surrogate": b'{"question": "Who\\ud800?", "passage": "x"}',
    "a lone surrogate in a key": b'{"question": "Who?", "passage": "x", "\\udfff": 1}',
    "a lone surrogate in raw bytes": b'{"question": "\xed\xa0\x80", "passage": "x"}',
    "deep lists": DEEP.encode(),
    "deep lists inside": ('{"question": ' + DEEP + "]" * 100_000 + ', "passage": "x"}').encode(),
    "deep objects": b'{"a":' * 50_000,
    "NaN": b'{"question": "Who?", "passage": "x", "min_confidence": NaN}',
    "infinity": b'{"question": "Who?", "passage": "x", "min_confidence": -Infinity}',
    "NaN for a text": b'{"question": NaN, "passage": "x"}',
    "a huge float": b'{"question": "Who?", "passage": "x", "min_confidence": 1e999}',
    "a huge integer": b'{"question": "Who?", "passage": "x", "top": ' + b"9" * 4000 + b"}",
    "an integer too long to convert": b'{"question": "Who?", "passage": "x", "top": ' + b"9" * 10_000 + b"}",
    "a negative top": b'{"question": "Who?", "passage": "x", "top": -1}',
    "a true top": b'{"question": "Who?", "passage": "x", "top": true}',
    "a top in words": b'{"question": "Who?", "passage": "x", "top": "3"}',
    "a question of the wrong type": b'{"question": ["Who?"], "passage": "x"}',
    "a passage that is null": b'{"question": "Who?", "passage": null}',
    "an empty question": b'{"question": "", "passage": "x"}',
    "a blank question": b'{"question": " \\n", "passage": "x"}',
    "a blank passage": b'{"question": "Who?", "passage": " "}',
    "a misspelt field": b'{"question": "Who?", "passage": "x", "tpo": 3}',
    "a long unknown field": b'{"question": "Who?", "passage": "x", "' + b"k" * 50_000 + b'": 3}',
}


@pytest.mark.parametrize("name", ODD_BODIES)
@pytest.mark.parametrize("path", ["/v1/answer", "/v1/answers", "/v1/explain"])
def test_odd_bodies_are_422(server: Any, path: str, name: str) -> None:
    response = server.client.post(path, content=ODD_BODIES[name], headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "invalid"
    assert len(response.json()["error"]["message"]) < 300


def test_the_sentence_says_what_is_wrong(server: Any) -> None:
    def message(body: dict[str, Any], path: str = "/v1/answer") -> str:
        return str(server.post(path, body).json()["error"]["message"])

    assert message({"question": "Who?"}) == "passage: Field required."
    assert message({**GOOD, "question": " "}) == "question: the question is empty; ask something."
    assert message({**GOOD, "passage": ""}) == "passage: the passage is empty; give a text to read."
    assert "tpo" in message({**GOOD, "tpo": 3})
    assert "less than or equal to 20" in message({**GOOD, "top": 21})
    assert message({"items": [GOOD, {"question": "Who?"}]}, "/v1/answers") == "items.1.passage: Field required."


STRANGE = [
    "\x00\x01\x7f\ufffe\uffff",
    "a\u0301" * 2000,
    "x" * 50_000,
    "👩\u200d👩\u200d👧\u200d👦" * 300,
    "\u202eolleh?",
]


@pytest.mark.parametrize("passage", STRANGE)
@pytest.mark.parametrize("question", ["Who?", "\x00", "\u202e?"])
def test_strange_but_valid_text_is_answered(server: Any, question: str, passage: str) -> None:
    response = server.post("/v1/answer", {"question": question, "passage": passage, "top": 5})
    assert response.status_code == 200
    assert all(passage[a["start"] : a["end"]] == a["text"] for a in response.json()["answers"])


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data", "application/json; charset=utf-16", ""]
)
def test_other_content_types_are_no_500(server: Any, kind: str) -> None:
    response = server.client.post("/v1/answer", content=json.dumps(GOOD).encode(), headers={"content-type": kind})
    assert response.status_code in (200, 422)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: many\r\n\r\n",
        b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /%00%ff%f0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    ],
)
def test_broken_http_is_refused_and_the_server_lives_on(server: Any, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as raw:
        raw.settimeout(5)
        raw.sendall(head)
        raw.shutdown(socket.SHUT_WR)
        assert b" 500 " not in raw.recv(4096)[:20]
    assert server.client.get("/readyz").status_code == 200


def test_a_client_that_leaves_half_way_harms_nobody(server: Any) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as raw:
            raw.sendall(b'POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"quest')
    assert server.post("/v1/answer", GOOD).status_code == 200


def test_generated_requests_never_meet_a_500(start: Any, shelf: Any) -> None:
    """RMREADER_FUZZ sets how many; half of them are what the OpenAPI file allows, half what it forbids."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from schemathesis import checks

    server, count = start(shelf=shelf), int(os.environ.get("RMREADER_FUZZ", "250"))
    schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    operations = [result.ok() for result in schema.get_all_operations()]
    assert {operation.path for operation in operations} >= {
        "/v1/answer",
        "/v1/answers",
        "/v1/explain",
        "/v1/ask",
        "/readyz",
    }
    asked = [operation for operation in operations if operation.method == "post"]
    sent = 0
    for operation in asked:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @settings(
                max_examples=-(-count // (2 * len(asked))),
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(mode))
            def call(case: Any) -> None:
                nonlocal sent
                sent += 1
                response = case.call(base_url=server.url)
                assert response.status_code < 500
                case.validate_response(
                    response,
                    checks=[
                        checks.not_a_server_error,
                        checks.status_code_conformance,
                        checks.content_type_conformance,
                        checks.response_schema_conformance,
                    ],
                )

            call()
    print(f"{sent} requests, none answered with 500")
    assert sent >= count * 0.9
