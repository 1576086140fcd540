"""Every call, and every status it can end with."""

from __future__ import annotations

import base64
import dataclasses
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.core.version import __version__
from rmreader.scoring.squad import f1
from rmreader.server import schemas
from rmreader.server.cost import weigh
from rmreader.server.settings import Settings


def error(response: httpx.Response, status: int, code: str) -> str:
    """The sentence of an error, once its status and shape are as promised."""
    assert response.status_code == status
    body = response.json()
    assert set(body) == {"error"}
    assert body["error"]["code"] == code
    assert body["error"]["message"].endswith(".")
    return str(body["error"]["message"])


def test_an_answer_is_the_readers_own(server: Any, reader: Any, passage: str, questions: list[str]) -> None:
    for question in questions:
        body = server.post("/v1/answer", {"question": question, "passage": passage, "top": 3}).json()
        expected = [dataclasses.asdict(answer) for answer in reader.ask(question, passage, top=3)]
        assert [(a["text"], a["start"], a["end"], a["sentence"]) for a in body["answers"]] == [
            (a["text"], a["start"], a["end"], a["sentence"]) for a in expected
        ]
        assert [a["confidence"] for a in body["answers"]] == pytest.approx(
            [a["confidence"] for a in expected], abs=1e-4
        )
        assert body["answer"] == next(iter(body["answers"]), None)  # how long it is may be said or not


def test_several_questions_are_answered_in_order(server: Any, passage: str, questions: list[str]) -> None:
    items = [{"question": question, "passage": passage, "top": 1 + k % 3} for k, question in enumerate(questions * 3)]
    together = server.post("/v1/answers", {"items": items}).json()["items"]
    alone = [server.post("/v1/answer", item).json() for item in items]
    for one, other in zip(together, alone, strict=True):
        assert [a["text"] for a in one["answers"]] == [a["text"] for a in other["answers"]]
        assert [a["confidence"] for a in one["answers"]] == pytest.approx(
            [a["confidence"] for a in other["answers"]], abs=1e-4
        )


def test_answers_below_the_wanted_confidence_are_left_out(server: Any, passage: str, questions: list[str]) -> None:
    ask = {"question": questions[0], "passage": passage, "top": 5}
    shares = [a["confidence"] for a in server.post("/v1/answer", ask).json()["answers"]]
    some = server.post("/v1/answer", {**ask, "min_confidence": max(0.0, shares[1] - 1e-5)}).json()
    assert len(some["answers"]) >= 2
    assert all(a["confidence"] >= shares[1] - 1e-4 for a in some["answers"])
    none = server.post("/v1/answer", {**ask, "min_confidence": 1.0}).json()
    assert (none["answer"], none["answers"]) == (None, [])


def test_offsets_count_code_points_and_fit_the_passage(server: Any) -> None:
    passage = "𝔘𝔫𝔦 😀 café — Ann lives in Zürich\x00 with 3 cats.\r\n"
    body = server.post("/v1/answer", {"question": "Who lives in Zürich?", "passage": passage, "top": 20}).json()
    assert body["answers"]
    assert all(passage[a["start"] : a["end"]] == a["text"] for a in body["answers"])


def test_a_passage_without_a_word_is_refused_as_everywhere(server: Any) -> None:
    reply = server.post("/v1/answer", {"question": "Who?", "passage": " \n\t "})
    assert reply.status_code == 422
    assert reply.json()["error"]["message"] == "passage: the passage is empty; give a text to read."


def test_attention_comes_by_word_and_every_column_sums_to_one(server: Any, passage: str, questions: list[str]) -> None:
    ask = {"question": questions[0], "passage": passage}
    body = server.post("/v1/explain", ask).json()
    packed = server.post("/v1/explain", {**ask, "packed": True}).json()
    n, m = len(body["question"]), len(body["passage"])
    assert all(passage[word["start"] : word["end"]] == word["text"] for word in body["passage"])
    assert body["rounds"]
    for spelled, small in zip(body["rounds"], packed["rounds"], strict=True):
        for name, shape in (("interactive", (n, m)), ("self", (m, m))):
            matrix = np.array(spelled[name])
            assert matrix.shape == shape
            np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-3)
            unpacked = np.frombuffer(base64.b64decode(small[name]), "<u2").reshape(shape) / 65535
            np.testing.assert_allclose(unpacked, matrix, atol=2e-5)


@pytest.mark.parametrize("path", ["/v1/answer", "/v1/answers", "/v1/explain"])
def test_the_short_way_answers_as_the_long_way_does(server: Any, passage: str, path: str) -> None:
    ask = {"question": "Who was the engineer?", "passage": passage}
    good = {"items": [ask, ask]} if path == "/v1/answers" else ask
    bad: list[Any] = [{}, [], None, 3, {"items": []}, {**ask, "top": 0}, {**ask, "top": 1.0}, {**ask, "other": 1}]
    texts = [json.dumps(body) for body in (good, *bad)]
    texts += [json.dumps(good)[:-1], json.dumps(good).replace("Who", "\\ud800"), "", "[" * 9999]
    texts += [json.dumps(good)[:-1] + ', "min_confidence": NaN}', json.dumps(good)[:-1] + ', "question": "When?"}']
    for text in texts:
        short, long = (
            server.client.post(path, content=text.encode(), headers={"content-type": kind})
            for kind in ("application/json", "application/json; charset=utf-8")  # FastAPI takes apart what has a ;
        )
        assert short.status_code == long.status_code
        assert short.content == long.content
    assert server.client.post(path, content=json.dumps(good), headers={"content-type": "text/plain"}).status_code == 422


@pytest.mark.parametrize(
    "headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}]
)
def test_json_that_is_not_called_json_is_told_of_its_header(server: Any, headers: dict[str, str]) -> None:
    body = json.dumps({"question": "Who?", "passage": "Ada wrote it."})
    response = server.client.post("/v1/answer", content=body, headers=headers)
    assert "content-type: application/json" in error(response, 422, "invalid")


def test_every_sample_of_the_page_is_answered_rightly(server: Any) -> None:
    right = {
        "Who built the lighthouse?": "Margaret Inglis",
        "Why was granite chosen?": "the softer stone of the first two towers had been worn away within a decade",
        "How far can the beam be seen?": "nineteen miles",
        "When did the last keeper leave?": "1986",
        "Where does the Sarn enter the sea?": "Hallport",
        "Which river do salmon climb?": "the Orrin",
        "Why do no salmon climb the Sarn?": "the weir at Tarrow was built in 1921",
        "Who will pay for the work?": "the owners of the power station",
        "What happens when water is poured in?": "lowers the note",
        "Why do dry fingers not work?": "without water the skin slides smoothly and gives no regular pushes",
        "How many bowls were fitted onto the spindle?": "thirty-seven",
        "Which glass sings at a lower pitch?": "A thin glass",
        "Where was the final played?": "Ashgrove",
        "Who were the Valley League champions?": "Elmstead Town",
        "Who coached the losing side?": "Per Lind",
        "How many people watched?": "21,400",
    }
    found = {}
    for sample in server.client.get("/samples.json").json():
        for question in sample["questions"]:
            answer = server.post("/v1/answer", {"question": question, "passage": sample["passage"]}).json()["answer"]
            found[question] = answer["text"] if answer else ""
    assert found.keys() == right.keys()
    wrong = {question: text for question, text in found.items() if f1(text, [right[question]]) < 0.6}
    assert wrong == {}


def test_health_and_metrics(server: Any, passage: str) -> None:
    assert server.client.get("/livez").json() == {"status": "alive"}
    assert server.client.get("/readyz").json() == {"status": "ready"}
    server.post("/v1/answer", {"question": "Who?", "passage": passage})
    metrics = server.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'rmreader_requests_total{route="/v1/answer",status="200"}' in metrics.text
    assert "rmreader_waiting_questions 0.0" in metrics.text
    assert f'rmreader_build_info{{version="{__version__}"}} 1.0' in metrics.text
    for line in metrics.text.splitlines():  # what was measured has its unit in its name
        if line.startswith("# TYPE rmreader") and line.endswith(" histogram"):
            assert line.split()[2].endswith(("_duration_seconds", "_questions"))
    server.client.get("/somewhere/else")
    assert "somewhere" not in server.client.get("/metrics").text  # no label grows with what callers make up


@pytest.mark.parametrize("shape", [schemas.Ask, schemas.AskMany, schemas.AskWhy])
def test_the_published_shapes_are_those_that_are_checked(server: Any, shape: Any) -> None:
    published = server.client.get("/openapi.json").json()["components"]["schemas"]
    checked = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    assert published[shape.__name__] == {key: value for key, value in checked.items() if key != "$defs"}


@pytest.mark.parametrize("path", ["/", "/page.js", "/livez", "/readyz", "/metrics", "/openapi.json", "/nothing"])
def test_head_is_get_without_a_body(server: Any, path: str) -> None:
    get, head = server.client.get(path), server.client.head(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]
    if path != "/metrics":  # which every request changes
        assert head.headers["content-length"] == get.headers["content-length"]
    assert server.client.head("/v1/answer").status_code == 405


def test_the_page_comes_with_a_strict_policy_and_nothing_from_elsewhere(server: Any) -> None:
    page = server.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    files = ["style.css", "page.js", "attention.js", "heatmap.js", "samples.json", "about.json", "icon.svg"]
    for text in [page.text, *(server.client.get(f"/{file}").text for file in files)]:
        assert "https://" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    again = server.client.get("/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_401_without_the_key(start: Any, passage: str) -> None:
    server = start(api_key="s3cret")
    ask = {"question": "Who?", "passage": passage}
    for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Bearer wrong"}, {"authorization": "Basic s3cret"},
                    {"x-api-key": "é".encode()}):  # fmt: skip
        refused = server.post("/v1/answer", ask, headers=headers)
        assert "API key" in error(refused, 401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
    for headers in ({"x-api-key": "s3cret"}, {"authorization": "Bearer s3cret"}, {"authorization": "bearer s3cret"}):
        assert server.post("/v1/answer", ask, headers=headers).status_code == 200
    assert server.client.get("/readyz").status_code == 200  # probes carry no key


def test_no_response_waits_for_an_acknowledgement(server: Any) -> None:
    spent = []
    for _ in range(60):
        began = time.perf_counter()
        server.client.get("/livez")
        spent.append(time.perf_counter() - began)
    assert min(spent[30:]) < 0.03  # 40 ms and more, every one, without TCP_NODELAY


def test_404_and_405_are_sentences(server: Any) -> None:
    error(server.client.get("/v2"), 404, "not_found")
    error(server.client.get("/v1/answer"), 405, "method_not_allowed")


def test_413_beyond_each_limit(start: Any) -> None:
    server = start(max_body=5000, max_passage=1000, max_question=100, max_items=3, max_explain=500)
    ask = {"question": "q", "passage": "p"}
    assert "1,001 characters" in error(server.post("/v1/answer", {**ask, "passage": "é" * 1001}), 413, "too_large")
    assert "question" in error(server.post("/v1/answer", {**ask, "question": "q" * 101}), 413, "too_large")
    assert "4 items" in error(server.post("/v1/answers", {"items": [ask] * 4}), 413, "too_large")
    items = [ask, {**ask, "passage": "p" * 1001}]
    assert "items[1]" in error(server.post("/v1/answers", {"items": items}), 413, "too_large")
    assert "500" in error(server.post("/v1/explain", {**ask, "passage": "p" * 501}), 413, "too_large")
    assert "5,000 bytes" in error(server.post("/v1/answer", {**ask, "passage": "p" * 5000}), 413, "too_large")
    assert server.post("/v1/answer", {**ask, "passage": "p" * 1000}).status_code == 200


def test_a_body_may_be_as_large_as_the_limit_but_no_larger(start: Any) -> None:
    server = start(max_body=5000)
    body = b'{"question": "Who?", "passage": "Ada."}'
    for size, status in ((5000, 200), (5001, 413)):
        for content in (body.ljust(size), iter([body, b" " * (size - len(body))])):  # announced, and in chunks
            response = server.client.post("/v1/answer", content=content, headers={"content-type": "application/json"})
            assert response.status_code == status


def test_413_for_a_chunked_body_that_never_said_how_long_it_is(start: Any) -> None:
    server = start(max_body=5000)

    def endless(count: int) -> Any:
        for _ in range(count):
            yield b"[" * 1000

    assert "5,000 bytes" in error(server.client.post("/v1/answer", content=endless(8)), 413, "too_large")
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as raw:  # far beyond: cut off
        raw.settimeout(10)
        raw.sendall(b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(42):
            raw.sendall(b"3e8\r\n" + b"[" * 1000 + b"\r\n")
        answer = raw.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer


def test_413_at_once_for_an_announced_length_out_of_all_proportion(start: Any) -> None:
    server = start(max_body=5000)
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as raw:
        raw.settimeout(10)
        raw.sendall(b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n[")
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")


def test_408_for_a_body_that_does_not_arrive(start: Any) -> None:
    server = start(deadline=0.3)
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as raw:
        raw.settimeout(10)
        raw.sendall(b'POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"question')
        answer = b"".join(iter(lambda: raw.recv(4096), b""))  # until the server hangs up
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"slow_request" in answer


def test_503_when_the_queue_is_full_and_the_accepted_are_answered(
    start: Any, held: Any, until: Any, passage: str
) -> None:
    server = start(held, queue=4, max_items=4, batch=1)
    ask = {"question": "Who?", "passage": passage}
    with ThreadPoolExecutor(8) as pool:
        accepted = [pool.submit(server.post, "/v1/answer", ask)]
        assert held.began.wait(10)
        accepted += [pool.submit(server.post, "/v1/answer", ask) for _ in range(4)]
        until(lambda: len(server.batcher.pending) == 4)
        refused = server.post("/v1/answer", ask)
        assert "ask again" in error(refused, 503, "busy")
        assert int(refused.headers["retry-after"]) >= 1
        error(server.post("/v1/answers", {"items": [ask] * 4}), 503, "busy")
        held.gate.set()
        assert [future.result().status_code for future in accepted] == [200] * 5
    assert server.post("/v1/answer", ask).status_code == 200


def test_503_where_what_waits_already_would_outlast_the_deadline(
    start: Any, held: Any, until: Any, passage: str
) -> None:
    server = start(held, deadline=120.0, batch=1)  # of which half may be promised
    ask = {"question": "Who?", "passage": passage}
    batcher = server.batcher
    batcher.pace.seconds, batcher.pace.tokens = 25.0, weigh("Who?", passage)  # as if it took 25 seconds for each
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(server.post, "/v1/answer", ask) for _ in range(8)]
        until(lambda: any(future.done() for future in futures))
        held.gate.set()
        responses = [future.result() for future in futures]
    statuses = [response.status_code for response in responses]
    assert set(statuses) == {200, 503}  # some were accepted, and all of those answered
    assert all(int(response.headers["retry-after"]) > 1 for response in responses if response.status_code == 503)


def test_504_past_the_deadline_and_the_question_is_dropped(start: Any, held: Any, passage: str) -> None:
    server = start(held, deadline=0.4, batch=1)
    ask = {"question": "Who?", "passage": passage}
    with ThreadPoolExecutor(3) as pool:
        late = [pool.submit(server.post, "/v1/answer", ask)]
        assert held.began.wait(60)  # lest another of the three be read first
        late += [pool.submit(server.post, f"/v1/{call}", ask) for call in ("answer", "explain")]
        for future in late:
            assert "0.4 seconds" in error(future.result(), 504, "deadline")
    assert not server.batcher.pending
    held.gate.set()
    assert server.post("/v1/answer", ask).status_code == 200
    assert len(held.batches) == 2  # the first, which had begun, and the last


def test_500_for_a_reader_that_breaks_says_nothing_of_the_passage(start: Any, passage: str) -> None:
    class Broken:
        def ask_many(self, pairs: Any, **options: Any) -> Any:
            raise KeyError(next(iter(pairs))[1])

    server = start(Broken())
    response = server.post("/v1/answer", {"question": "Who?", "passage": passage})
    error(response, 500, "internal")
    assert "Marwick" not in response.text
    assert server.client.get("/readyz").status_code == 200


def test_request_ids_are_taken_over_where_sane(server: Any) -> None:
    assert server.client.get("/livez", headers={"x-request-id": "abc-123.X_y"}).headers["x-request-id"] == "abc-123.X_y"
    for odd in ("a" * 65, "a b", '"}', ""):
        assert server.client.get("/livez", headers={"x-request-id": odd}).headers["x-request-id"] != odd


def test_settings_that_cannot_work_are_refused() -> None:
    for bad in ({"queue": 0}, {"deadline": 0.0}, {"port": 70_000}, {"batch_wait": -1.0}, {"api_key": "a b"},
                {"max_items": 9, "queue": 8}, {"deadline": float("nan")}, {"host": ""},
                {"deadline": float("inf")}, {"batch_wait": float("inf")}, {"drain_delay": float("inf")}):  # fmt: skip
        with pytest.raises(UserError, match="server setting"):
            Settings(**bad)  # type: ignore[arg-type]
    assert Settings().host == "127.0.0.1"
