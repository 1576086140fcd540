"""Documents and long texts that are sent: every format that ``ask`` reads, within limits of size, time and number."""

from __future__ import annotations

import json
import os
import socket
import threading
from io import BytesIO
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import httpx
import pytest
from support.documents import every_format, pdf

from rmreader.documents.document import read_document
from rmreader.documents.formats import formats
from rmreader.documents.sandbox import Sandbox
from rmreader.server import long_answers, uploads

OCTETS = {"content-type": "application/octet-stream"}
FILLER = "The council met on Tuesdays and talked of the roof, the drains and the price of coal. "
LONG = FILLER * 1_300 + "The new bridge was designed by Ada Fenwick of Leeds. " + FILLER * 300
BRIDGE = "Who designed the new bridge?"
ROUNDS = int(os.environ.get("RMREADER_FUZZ", "120"))
"""How many damaged documents are sent."""


def upload(server: Any, name: str, content: bytes, **options: Any) -> httpx.Response:
    response = server.client.post("/v1/read", params={"name": name}, content=content, headers=OCTETS, **options)
    assert isinstance(response, httpx.Response)
    return response


def lines_of(server: Any, body: Any) -> list[Any]:
    with server.client.stream("POST", "/v1/long-answer", json=body, timeout=300) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.iter_lines()]


def test_every_format_is_read_as_ask_reads_it(server: Any) -> None:
    documents = every_format()
    read = {formats()[f".{name.rpartition('.')[2]}"].name for name in documents}
    assert read == {format.name for format in formats().values()}
    for name, content in documents.items():
        response = upload(server, name, content)
        assert response.status_code == 200, response.text
        expected = read_document(name, content)
        assert response.json() == {
            "name": name,
            "text": expected.whole.text,
            "note": expected.note,
            "offsets": expected.offsets,
        }
    assert upload(server, "C:\\papers\\a.txt", b"Ada.").json()["name"] == "a.txt"


def test_a_large_document_arrives_whole(server: Any) -> None:
    text = 'Zürich 😀 \\ " \n\n' + FILLER * 20_000
    assert upload(server, "a.txt", text.encode()).json()["text"] == text


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.pdf", b"%PDF-1.7 damaged", "a.pdf"),
        ("a.docx", b"PK\3\4 damaged", "a.docx"),
        ("a.txt", b"\0\1\2", "binary data"),
        ("a.txt", b"", "the passage is empty"),
        ("a.pdf", b"plain text", "not a PDF document"),
    ],
)
def test_what_cannot_be_read_is_422_and_a_sentence(server: Any, name: str, content: bytes, sentence: str) -> None:
    response = upload(server, name, content)
    assert response.status_code == 422
    assert sentence in response.json()["error"]["message"]


def test_the_request_must_name_the_document_and_be_one(server: Any) -> None:
    for address in ("/v1/read", "/v1/read?name=", "/v1/read?name=a%00.txt", "/v1/read?name=" + "a" * 256):
        response = server.client.post(address, content=b"Ada.", headers=OCTETS)
        assert (response.status_code, "?name=FILE" in response.text) == (422, True)
    for kind in ("", "text/plain", "multipart/form-data", "application/json"):
        headers = {"content-type": kind} if kind else {}
        response = server.client.post("/v1/read?name=a.txt", content=b"Ada.", headers=headers)
        assert (response.status_code, "application/octet-stream" in response.text) == (422, True)


def test_a_document_that_is_too_large_is_413(start: Any) -> None:
    server = start(max_upload=1_000)
    assert upload(server, "a.txt", b"a" * 1_000).status_code == 200
    response = upload(server, "a.txt", b"a" * 1_001)
    assert response.status_code == 413
    assert "1,000 bytes" in response.json()["error"]["message"]

    def endless() -> Any:
        while True:
            yield b"a" * 10_000

    try:
        status = server.client.post("/v1/read?name=a.txt", content=endless(), headers=OCTETS).status_code
    except httpx.TransportError:  # it was cut off in the middle of sending
        status = 413
    assert status == 413


def test_a_document_that_ends_or_holds_up_its_process_is_a_sentence(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(read_deadline=20.0)
    parse = Sandbox.parse

    def at_once(self: Sandbox, name: str, content: bytes, seconds: float) -> Any:
        if name != "slow.pdf":
            return parse(self, name, content, seconds)
        self.close()
        return parse(self, name, content, 0)  # and the process has yet to start

    monkeypatch.setattr(Sandbox, "parse", at_once)
    for _ in range(3):
        response = upload(server, "slow.pdf", pdf([["Ada."]]))
        assert response.status_code == 422
        assert "takes more than 0 s" in response.text
    assert upload(server, "a.pdf", pdf([["Ada wrote it."]])).json()["text"] == "Ada wrote it."


def test_one_client_has_few_documents_read_at_once(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server, gate, began = start(), threading.Event(), threading.Semaphore(0)
    parse = Sandbox.parse

    def held(self: Sandbox, *arguments: Any) -> Any:
        began.release()
        assert gate.wait(60)
        return parse(self, *arguments)

    monkeypatch.setattr(Sandbox, "parse", held)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(upload(server, "a.txt", b"Ada.").status_code))
        for _ in range(uploads.LARGE_OF_ONE)
    ]
    for one in threads:
        one.start()
    for _ in threads:
        assert began.acquire(timeout=60)
    response = upload(server, "a.txt", b"Ada.")
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    ask = {"question": "Who?", "passage": "Ada."}
    assert server.post("/v1/answer", ask).status_code == 200  # questions do not wait for documents
    gate.set()
    for one in threads:
        one.join(60)
    assert found == [200] * uploads.LARGE_OF_ONE
    assert upload(server, "a.txt", b"Ada.").status_code == 200


def test_a_text_that_an_ordinary_call_refuses_is_read_as_ask_reads_it(start: Any, reader: Any) -> None:
    server = start(deadline=0.5)
    ask = {"question": BRIDGE, "passage": LONG, "top": 2}
    assert server.post("/v1/answer", ask).status_code == 413
    *shares, last = lines_of(server, ask)
    expected = reader.ask(BRIDGE, LONG, top=2)
    assert last["answer"]["text"] == expected[0].text
    assert [answer["start"] for answer in last["answers"]] == [answer.start for answer in expected]
    read = [line["read"] for line in shares]
    assert read == sorted(read)
    assert read[0] == 0
    assert 0 < read[-1] <= 1


def test_a_long_reading_ends_when_its_client_leaves(start: Any, until: Any) -> None:
    server = start()
    ask = {"question": BRIDGE, "passage": LONG * 10}
    with server.client.stream("POST", "/v1/long-answer", json=ask) as response:
        assert json.loads(next(response.iter_lines())) == {"read": 0.0}
        until(lambda: bool(server.batcher.reading or server.batcher.pending))
    until(lambda: not server.batcher.reading and not server.batcher.pending)
    assert server.post("/v1/answer", {"question": "Who?", "passage": "Ada."}).status_code == 200


def test_a_very_long_text_is_indexed_as_ask_does(
    start: Any, reader: Any, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    text = "\n\n".join(f"Report {number}. " + FILLER * 4 for number in range(700))
    half = len(text) // 2
    text = text[:half] + "\n\nThe new bridge was designed by Ada Fenwick of Leeds.\n\n" + text[half:]
    monkeypatch.setattr(long_answers, "LARGE", 100_000)
    server = start()
    *shares, last = lines_of(server, {"question": BRIDGE, "passage": text, "top": 3})
    assert last["answer"]["text"].startswith("Ada Fenwick")
    for answer in last["answers"]:
        assert text[answer["start"] : answer["end"]] == answer["text"]
        assert text[answer["sentence_start"] :].startswith(answer["sentence"][:20])
    assert shares[-1] == {"read": 1.0}
    before = threading.active_count()
    with server.client.stream("POST", "/v1/long-answer", json={"question": BRIDGE, "passage": text * 20}) as response:
        next(response.iter_lines())  # and then it leaves
    until(lambda: threading.active_count() <= before + 2)
    assert server.post("/v1/answer", {"question": "Who?", "passage": "Ada."}).status_code == 200


def test_what_goes_wrong_with_a_long_text_is_its_last_line(start: Any, server: Any) -> None:
    (*_, last) = lines_of(start(long_deadline=0.2), {"question": BRIDGE, "passage": LONG * 10})
    assert last["error"]["code"] == "deadline"
    (*_, last) = lines_of(server, {"question": "who " * 10_001, "passage": "Ada."})
    assert "10,001 words" in last["error"]["message"]
    for body, status in ((b"{}", 422), (b"[", 422)):
        headers = {"content-type": "application/json"}
        assert server.client.post("/v1/long-answer", content=body, headers=headers).status_code == status


# Documents that mean harm


def test_damaged_documents_are_read_or_refused_and_never_a_500(server: Any) -> None:
    random = Random(7)
    seen = set()
    for number in range(ROUNDS):
        name, content = random.choice(sorted(every_format().items()))
        data = bytearray(content)
        for _ in range(random.choice([1, 3, 20])):
            at = random.randrange(len(data))
            data[at : at + random.choice([0, 1, 5])] = random.randbytes(random.choice([0, 1, 3]))
        response = upload(server, name, bytes(data[: random.choice([len(data), len(data) // 2])]))
        assert response.status_code in (200, 422), (number, name, response.text)
        seen.add(response.status_code)
    assert seen == {200, 422}


def test_a_bomb_is_a_sentence(server: Any) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", b" " * (100 << 20))
    response = upload(server, "bomb.docx", packed.getvalue(), timeout=120)
    assert response.status_code == 422
    assert "bomb.docx" in response.json()["error"]["message"]
    assert upload(server, "a.docx", every_format()["pump.docx"]).status_code == 200


def test_a_document_that_does_not_arrive_is_408_and_its_place_is_free_again(start: Any) -> None:
    server = start(read_deadline=4.0)
    head = b"POST /v1/read?name=a.txt HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
    address = server.client.base_url
    with socket.create_connection((address.host, address.port), timeout=30) as raw:
        raw.sendall(head + b"content-length: 100\r\n\r\nAda")
        assert raw.recv(4096).startswith(b"HTTP/1.1 408 ")
    for _ in range(uploads.LARGE_OF_ONE + 1):
        assert upload(server, "a.txt", b"Ada.").status_code == 200


def test_a_short_question_is_answered_while_a_long_text_is_read(start: Any) -> None:
    server = start()
    with server.client.stream("POST", "/v1/long-answer", json={"question": BRIDGE, "passage": LONG * 10}) as response:
        lines = response.iter_lines()
        next(lines)
        ask = {"question": "Who came?", "passage": "Ada came home."}
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as other:
            for _ in range(3):
                assert other.post("/v1/answer", json=ask).status_code == 200
        assert "answers" not in json.loads(next(lines))  # which takes longer than all of them
