"""One client alone can neither stop the server, nor fill it, nor keep it from the others; nor can a web page ask it."""

from __future__ import annotations

import contextlib
import json
import re
import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmreader.server import transport
from rmreader.server.transport import PIPELINED

HEAD = b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
WHOLE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def connect(server: Any, buffer: int = 0) -> socket.socket:
    raw = socket.socket()
    if buffer:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    raw.settimeout(30)
    raw.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
    return raw


def rest(raw: socket.socket) -> bytes:
    """What the server sends until it hangs up."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := raw.recv(1 << 16):
            received += chunk
    return received


def call(path: str, body: Any, extra: bytes = b"") -> bytes:
    """A call as bytes on the wire."""
    data = json.dumps(body).encode()
    head = HEAD.replace(b"/v1/answer", path.encode()) + extra
    return head + b"content-length: %d\r\n\r\n" % len(data) + data


def sentence(response: bytes, status: int, code: str) -> str:
    """The sentence of a refusal, which looks like every other one."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    for header in (b"content-type: application/json", b"x-request-id: ", b"x-content-type-options: nosniff"):
        assert b"\r\n" + header in head
    problem = json.loads(body)["error"]
    assert problem["code"] == code
    assert problem["message"].endswith(".")
    return str(problem["message"])


# Bodies that cost more to judge than to send


UNKNOWN = "{" + ",".join(f'"k{k}":0' for k in range(80_000)) + "}"
COSTLY = {
    "empty items": ("/v1/answers", '{"items":[' + ",".join(["{}"] * 349_000) + "]}", 413),
    "unknown fields": ("/v1/answer", UNKNOWN, 422),
    "an item of unknown fields": ("/v1/answers", f'{{"items":[{UNKNOWN}]}}', 422),
    "numbers for items": ("/v1/answers", '{"items":[' + ",".join(["0"] * 64) + "]}", 422),
}


@pytest.mark.parametrize("name", COSTLY)
def test_judging_a_body_takes_bounded_time_whatever_is_in_it(server: Any, name: str) -> None:
    path, body, status = COSTLY[name]
    began = time.process_time()  # of this process, in which the server runs
    response = server.client.post(path, content=body.encode(), headers={"content-type": "application/json"})
    spent = time.process_time() - began
    assert response.status_code == status
    assert len(response.json()["error"]["message"]) < 300
    assert spent < 0.7


# Passages that take long


def test_long_passages_do_not_keep_the_reader_from_short_ones(start: Any, passage: str) -> None:
    server, over, statuses = start(deadline=6.0), threading.Event(), []
    dots = call("/v1/answer", {"question": "Who?", "passage": "." * 20_000}, b"connection: close\r\n")

    def hog(number: int) -> None:
        while not over.wait(0.1):
            with connect(server) as raw:
                raw.sendall(dots)
                while not over.is_set() and not select.select([raw], [], [], 0.05)[0]:
                    pass
                if number == 0 or not over.is_set():  # the others leave, so that no more than one is still read
                    statuses.append(int(rest(raw).split()[1]))

    hogs = [threading.Thread(target=hog, args=(number,), daemon=True) for number in range(4)]
    for one in hogs:
        one.start()
    time.sleep(0.5)
    waits = []
    short = {"question": "Who was the engineer?", "passage": passage}
    try:
        for _ in range(12):
            began = time.monotonic()
            assert server.post("/v1/answer", short).status_code == 200
            waits.append(time.monotonic() - began)
    finally:  # or they would go on beside the next test
        over.set()
        for one in hogs:
            one.join(30)
    assert max(waits) < 4.0
    assert statuses
    assert set(statuses) <= {200, 503, 504}


class Endless:
    """A reader whose every long passage takes twenty seconds."""

    def __init__(self, reader: Any) -> None:
        self.reader, self.parts, self.began = reader, 0, threading.Event()

    def ask_many(self, pairs: Any, **options: Any) -> Iterator[Any]:
        return self.reader.ask_many(pairs, **options)

    def ask_in_parts(self, question: str, passage: str, **options: Any) -> Iterator[Any]:
        for _ in range(400):
            self.parts += 1
            self.began.set()
            time.sleep(0.05)
            yield None
        yield []


@pytest.mark.parametrize("manner", ["reset", "close"])
def test_a_long_reading_ends_when_its_client_leaves(start: Any, until: Any, reader: Any, manner: str) -> None:
    endless = Endless(reader)
    server = start(endless, deadline=600)
    raw = connect(server)
    raw.sendall(call("/v1/answer", {"question": "Who?", "passage": "." * 50_000}))
    assert endless.began.wait(10)
    if manner == "reset":
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    raw.close()
    until(lambda: not server.batcher.reading and not server.batcher.pending)
    assert endless.parts < 300
    until(lambda: server.connections() == 0)


def test_a_long_reading_ends_at_its_deadline(start: Any, until: Any, reader: Any) -> None:
    endless = Endless(reader)
    server = start(endless, deadline=0.5)
    assert server.post("/v1/answer", {"question": "Who?", "passage": "." * 50_000}).status_code == 504
    until(lambda: not server.batcher.reading and not server.batcher.pending)
    assert endless.parts < 100


# Answers that nobody takes


def test_requests_whose_answers_are_not_taken_do_not_hold_a_connection(start: Any, until: Any) -> None:
    server = start(connections=3, deadline=1.0)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            silent = stack.enter_context(connect(server, 4096))
            silent.settimeout(0.5)
            with contextlib.suppress(OSError):
                for _ in range(500):
                    silent.sendall(b"GET /style.css HTTP/1.1\r\nhost: localhost\r\n\r\n" * 4)
        until(lambda: server.connections() == 0)
        assert httpx.get(f"{server.url}/livez", trust_env=False).status_code == 200


def test_a_connection_has_few_requests_in_flight(server: Any) -> None:
    with connect(server) as raw:
        raw.sendall(WHOLE * 2000)
        answers = rest(raw).count(b"HTTP/1.1 200 ")
    assert 1 + PIPELINED <= answers < 100  # those accepted are answered


def test_a_few_requests_at_once_are_answered_in_order(server: Any, passage: str) -> None:
    ask = call("/v1/answer", {"question": "Who was the engineer?", "passage": passage})
    with connect(server) as raw:
        raw.sendall(ask + WHOLE + ask + LAST)
        response = rest(raw)
    places = [response.find(part) for part in (b'"answers"', b'"alive"', b'"ready"')]
    assert places == sorted(places)
    assert min(places) > 0
    assert response.count(b'"answers"') == 2


def test_unread_answers_are_bounded_all_together_and_the_oldest_go(
    start: Any, until: Any, passage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "UNREAD", 4 * 2**20)
    server = start(deadline=600)
    ask = {"question": "Who?", "passage": (passage * 20)[:4000]}
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            raw = stack.enter_context(connect(server, 4096))
            raw.sendall(call("/v1/explain", ask))
            assert raw.recv(12) == b"HTTP/1.1 200"
            until(lambda: len(server.limits.unread) > 0)
            assert sum(one.transport.get_write_buffer_size() for one in list(server.limits.unread)) <= 4 * 2**20
        until(lambda: server.connections() < 6)
        assert len(server.post("/v1/explain", ask).content) > 2**20  # who reads gets it
    until(lambda: not server.limits.unread)  # nobody who has left is remembered


def test_attention_of_a_long_question_is_refused(server: Any, passage: str) -> None:
    for question in ("." * 2_000, "why " * 100):
        response = server.post("/v1/explain", {"question": question, "passage": passage})
        assert response.status_code == 413
        assert "attention is shown for up to 300" in response.json()["error"]["message"]


# Offers of another protocol, as curl --http2 and Java's HttpClient make them


OFFERS = {
    "curl": b"User-Agent: curl/7.88.1\r\nAccept: */*\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    "java": b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
    b"Upgrade: h2c\r\nUser-Agent: Java-http-client/17.0.15\r\n",
    "websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
}


def whole_response(raw: socket.socket) -> bytes:
    """One response to its end: head and body may come by themselves."""
    received = b""
    while True:
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)", head)
        if length is not None and len(body) >= int(length[1]):
            return received
        piece = raw.recv(1 << 16)
        assert piece, "the server hung up"
        received += piece


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("offer", OFFERS)
def test_an_offer_of_another_protocol_does_not_lose_the_body(
    server: Any, passage: str, offer: str, apart: bool
) -> None:
    ask = call("/v1/answer", {"question": "Who was the engineer?", "passage": passage}, OFFERS[offer])
    head, _, body = ask.partition(b"\r\n\r\n")
    with connect(server) as raw:
        for _ in range(2):  # and the next request is read as one
            for piece in (head + b"\r\n\r\n", body) if apart else (ask,):
                raw.sendall(piece)
                time.sleep(0.05 if apart else 0)
            response = whole_response(raw)
            assert response.startswith(b"HTTP/1.1 200 ")
            assert b"Josiah Penn" in response
        raw.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + OFFERS[offer] + b"\r\n" + LAST)
        assert rest(raw).count(b"HTTP/1.1 200 ") == 2


def test_curl_offers_http2_and_is_answered(server: Any, passage: str, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None or "HTTP2" not in subprocess.run([curl, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("there is no curl that speaks HTTP/2")
    body = json.dumps({"question": "Who was the engineer?", "passage": passage})
    done = subprocess.run(
        [curl, "-s", "--http2", "--noproxy", "*", "-H", "content-type: application/json", "-d", body,
         f"{server.url}/v1/answer"], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["answer"]["text"] == "Josiah Penn"


JAVA = """
import java.net.URI;
import java.net.http.*;
public class Ask {
  public static void main(String[] given) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    for (int k = 0; k < 2; k++) {
      HttpRequest ask = HttpRequest.newBuilder(URI.create(given[0])).header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(given[1])).build();
      HttpResponse<String> answer = client.send(ask, HttpResponse.BodyHandlers.ofString());
      System.out.println(answer.statusCode() + " " + answer.body());
    }
  }
}
"""


def test_java_offers_http2_and_is_answered(server: Any, passage: str, tmp_path: Path) -> None:
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("there is no Java that compiles")
    (tmp_path / "Ask.java").write_text(JAVA)
    body = json.dumps({"question": "Who was the engineer?", "passage": passage})
    command = ["java", str(tmp_path / "Ask.java"), f"{server.url}/v1/answer", body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert [line[:3] for line in lines] == ["200", "200"], done.stderr
    assert all("Josiah Penn" in line for line in lines)


# Web pages of other origins


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:8000", 200), ("127.0.0.1:1", 200), ("[::1]:8000", 200), ("192.168.0.7", 200),
     ("evil.example", 421), ("evil.example:8000", 421), ("localhost.evil.example", 421), ("127.0.0.1.nip.io", 421),
     ("", 400), ("a b", 421), ("[::1", 400), ("localhost:80:80", 400)],
)  # fmt: skip
def test_names_that_are_not_ours_are_refused(server: Any, method: str, host: str, status: int) -> None:
    ask = {"question": "Who?", "passage": "Ada."} if method == "POST" else None
    path = "/v1/answer" if ask else "/metrics"
    response = server.client.request(method, path, json=ask, headers={"host": host})
    assert response.status_code == status
    if status != 200:
        assert "example" not in response.text  # and not reflected


def test_names_are_ours_by_a_setting(start: Any) -> None:
    server = start(host_names="reader.example.org, other")
    for host, status in (("reader.example.org", 200), ("Other:80", 200), ("evil.example", 421), ("localhost", 200)):
        assert server.client.get("/livez", headers={"host": host}).status_code == status
    ask = {"question": "Who?", "passage": "Ada."}
    for origin, status in (("https://reader.example.org", 200), ("https://evil.example", 403), ("null", 403)):
        headers = {"host": "127.0.0.1:8000", "origin": origin}  # as after a proxy that names its own target in Host
        assert server.post("/v1/answer", ask, headers=headers).status_code == status
    assert start(host_names="*").client.get("/livez", headers={"host": "evil.example"}).status_code == 200


def test_a_request_has_one_host(server: Any) -> None:
    for hosts in (b"", b"host: localhost\r\nhost: localhost\r\n"):
        with connect(server) as raw:
            raw.sendall(b"GET /livez HTTP/1.1\r\n" + hosts + b"connection: close\r\n\r\n")
            sentence(rest(raw), 400, "bad_request")
    with connect(server) as raw:
        raw.sendall(b"GET /livez HTTP/1.0\r\n\r\n")  # which knew no Host
        assert rest(raw).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:8000", 200), ("https://localhost:8000", 200), ("http://LOCALHOST:8000", 200),
     ("http://localhost:3000", 403), ("https://evil.example", 403), ("null", 403), ("", 403)],
)  # fmt: skip
def test_a_page_of_another_origin_may_not_ask(server: Any, origin: str, status: int) -> None:
    ask = {"question": "Who?", "passage": "Ada."}
    response = server.post("/v1/answer", ask, headers={"host": "localhost:8000", "origin": origin})
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


def test_what_a_form_can_send_is_not_json(server: Any) -> None:
    body = json.dumps({"question": "Who?", "passage": "Ada."})
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"):
        response = server.client.post("/v1/answer", content=body, headers={"content-type": kind} if kind else {})
        assert response.status_code == 422
        assert "content-type: application/json" in response.json()["error"]["message"]
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/problem+json"):
        assert server.client.post("/v1/answer", content=body, headers={"content-type": kind}).status_code == 200


# What is no request


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HELLO\r\n\r\n", b"CONNECT evil:443 HTTP/1.1\r\n\r\n",
             b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HEAD + b"content-length: many\r\n\r\n",
             HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n"],
)  # fmt: skip
def test_what_is_no_request_gets_a_sentence(server: Any, sent: bytes) -> None:
    with connect(server) as raw:
        raw.sendall(sent)
        sentence(rest(raw), 400, "bad_request")
    with connect(server) as raw:  # and what came before it is answered
        raw.sendall(WHOLE + sent)
        response = rest(raw)
    assert response.startswith(b"HTTP/1.1 200 ")
    assert b'{"status":"alive"}' in response


def test_who_sends_no_more_is_still_answered(start: Any, held: Any, passage: str) -> None:
    server = start(held)
    ask = call("/v1/answer", {"question": "Who was the engineer?", "passage": passage})
    with connect(server) as quick, connect(server) as slow:
        for raw in (quick, slow):
            raw.sendall(ask + WHOLE if raw is quick else ask)
            raw.shutdown(socket.SHUT_WR)
        time.sleep(1.3)  # longer than it takes the server to ask whether the client still listens
        held.gate.set()
        for raw, interim in ((quick, 0), (slow, 1)):
            response = rest(raw)
            assert response.count(b"HTTP/1.1 100 ") == interim
            assert b"Josiah Penn" in response
            assert response.count(b"HTTP/1.1 200 ") == 2 - interim


def test_a_slash_too_many_leads_to_the_same_place(server: Any) -> None:
    response = server.post("/v1/answer/", {"question": "Who?", "passage": "Ada."}, follow_redirects=False)
    assert response.status_code == 200
    assert server.client.get("/livez/", follow_redirects=False).json() == {"status": "alive"}
    lost = server.client.get("/nothing/", headers={"host": "localhost"}, follow_redirects=False)
    assert lost.status_code == 404
    assert "location" not in lost.headers
