"""Clients that dawdle, stay silent, come in crowds or never come to the point: none keeps a connection for ever."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from typing import Any

import httpx
import pytest

from rmreader.server import transport
from rmreader.server.transport import HEAD

HALF = b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\n"
WHOLE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"


def connect(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=60)


def rest(raw: socket.socket) -> bytes:
    """What the server sends until it hangs up; a server that never does is a timeout."""
    received = b""
    try:
        while chunk := raw.recv(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def ask_whether_alive(raw: socket.socket) -> None:
    """A whole request and its whole answer, which may come in pieces."""
    raw.sendall(WHOLE)
    received = b""
    while not received.endswith(b'{"status":"alive"}'):
        piece = raw.recv(4096)
        assert piece, "the server hung up"
        received += piece
    assert received.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"P", HALF, b"\r\n"])
def test_a_head_that_does_not_arrive_ends_the_connection(start: Any, sent: bytes) -> None:
    server = start(deadline=0.4)
    began = time.monotonic()
    with connect(server) as raw:
        with contextlib.suppress(OSError):  # on a busy machine the time may be over before
            raw.sendall(sent)
        assert rest(raw) == b""
    assert time.monotonic() - began > 0.3


@pytest.mark.parametrize("sent", [HALF, b"\r\n"])
def test_so_does_that_of_a_later_request(start: Any, sent: bytes) -> None:
    with connect(start(deadline=3.0)) as raw:
        for _ in range(3):
            ask_whether_alive(raw)
            time.sleep(1.1)  # longer than the deadline in all, but every head is complete at once
        raw.sendall(sent)
        assert rest(raw) == b""


def test_a_trickle_does_not_prolong_it(start: Any) -> None:
    def trickle(raw: socket.socket) -> None:
        for byte in b"GET /livez?" + b"a" * 100:
            raw.sendall(bytes([byte]))
            time.sleep(0.05)

    with connect(start(deadline=0.4)) as raw, pytest.raises(OSError):  # broken off
        trickle(raw)


def test_an_idle_connection_is_kept_for_a_while(start: Any) -> None:
    with connect(start(deadline=2.0, keep_alive=4)) as raw:
        began = time.monotonic()
        ask_whether_alive(raw)
        assert rest(raw) == b""
        assert time.monotonic() - began > 3.8


@pytest.mark.parametrize("manner", ["keep-alive", "close"])
def test_an_answer_that_is_not_taken_is_cut_off(start: Any, until: Any, passage: str, manner: str) -> None:
    server = start(keep_alive=1)
    body = json.dumps({"question": "Who?", "passage": (passage * 20)[:4000]}).encode()
    head = f"POST /v1/explain HTTP/1.1\r\nhost: localhost\r\nconnection: {manner}\r\ncontent-type: application/json\r\n"
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(10)
        raw.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        raw.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: server.connections() == 1)
        assert raw.recv(12) == b"HTTP/1.1 200"
        until(lambda: server.connections() == 0)
        assert len(rest(raw)) > 0


def test_a_server_that_stops_leaves_no_connection_open(
    start: Any, passage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "TAKEN", 0)  # so that nothing but the end of the server cuts this client off
    server = start(deadline=5.0)
    body = json.dumps({"question": "Who?", "passage": (passage * 20)[:4000]}).encode()
    head = b"POST /v1/explain HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(60)
        raw.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        raw.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert raw.recv(12) == b"HTTP/1.1 200"
        server.stop()
        assert server.connections() == 0
        rest(raw)


def test_a_crowd_is_bounded_and_those_inside_are_served(start: Any, until: Any) -> None:
    server = start(connections=2)
    with connect(server) as first, connect(server) as second:
        until(lambda: server.connections() == 2)
        with connect(server) as third:
            assert rest(third) == b""
        for raw in (first, second):
            ask_whether_alive(raw)
    until(lambda: server.connections() == 0)
    assert httpx.get(f"{server.url}/livez", trust_env=False).status_code == 200


def send(raw: socket.socket, data: bytes, piece: int) -> None:
    """Piece by piece, each by itself, until the server wants no more."""
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(ConnectionError):
        for start in range(0, len(data), piece):
            raw.sendall(data[start : start + piece])
            time.sleep(0.0005)


def refusal(response: bytes) -> str:
    """The sentence of a 431."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"\r\nx-request-id: " in head
    error = json.loads(body)["error"]
    assert error["code"] == "head_too_large"
    return str(error["message"])


@pytest.mark.parametrize("before", [b"", WHOLE])
@pytest.mark.parametrize(
    ("begun", "endless"), [(HALF, b"a: b\r\n"), (HALF + b"a: ", b"a"), (b"GET /", b"a"), (b"", b"\r\n")]
)
def test_a_head_without_end_is_refused(
    start: Any, until: Any, caplog: pytest.LogCaptureFixture, begun: bytes, endless: bytes, before: bytes
) -> None:
    caplog.set_level(logging.INFO, "rmreader.server")
    server = start(deadline=600)
    with connect(server) as raw:
        if before:
            ask_whether_alive(raw)
        send(raw, begun + endless * (4 * HEAD // len(endless)), 10_000)
        assert "65,536 bytes" in refusal(rest(raw))
    until(lambda: server.connections() == 0)
    assert [record.message for record in caplog.records].count("head_too_large") == 1


@pytest.mark.parametrize("piece", [1 << 20, 10_000])
@pytest.mark.parametrize(("size", "status"), [(4_000, 200), (HEAD - 1_000, 200), (HEAD + 1_000, 431)])
def test_a_head_may_have_its_size_however_it_comes(server: Any, size: int, status: int, piece: int) -> None:
    cookie = b"cookie: " + b"c" * (size // 2) + b"\r\n"
    line = b"GET /livez?" + b"q" * (size // 2) + b" HTTP/1.1\r\n"
    head = line + b"host: localhost\r\nconnection: close\r\n" + cookie + b"\r\n"
    with connect(server) as raw:
        send(raw, head, piece)
        response = rest(raw)
    assert response.startswith(f"HTTP/1.1 {status} ".encode())
    if status == 431:
        refusal(response)


@pytest.mark.parametrize("piece", [1 << 20, 10_000])
def test_a_body_is_no_part_of_the_head(server: Any, passage: str, piece: int) -> None:
    body = json.dumps({"question": "Who was the engineer?", "passage": passage}).encode() + b" " * 2 * HEAD
    head = b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
    chunks = b"".join(b"1;why=not\r\n%c\r\n" % byte for byte in body[:20_000]) + b"0\r\n\r\n"
    for whole in (
        head + b"content-length: %d\r\n\r\n" % len(body) + body,
        head + b"transfer-encoding: chunked\r\n\r\n" + chunks,
    ):
        assert len(whole) > 2 * HEAD
        with connect(server) as raw:
            send(raw, whole, piece)
            assert rest(raw).startswith(b"HTTP/1.1 200 ")


def test_headers_after_a_body_have_an_end_too(start: Any, until: Any) -> None:
    server = start(deadline=600)
    head = b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    with connect(server) as raw:
        send(raw, head + b"a: b\r\n" * HEAD, 10_000)
        assert "65,536 bytes" in refusal(rest(raw))
    until(lambda: server.connections() == 0)
