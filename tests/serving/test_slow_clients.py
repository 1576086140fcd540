"""Clients that dawdle, stay silent or come in crowds: none keeps a connection for ever."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import httpx
import pytest

HALF = b"POST /v1/answer HTTP/1.1\r\nhost: x\r\n"
WHOLE = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"


def connect(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10)


def rest(raw: socket.socket) -> bytes:
    """What the server sends until it hangs up; a server that never does is a timeout."""
    received = b""
    try:
        while chunk := raw.recv(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("sent", [b"", b"P", HALF, b"\r\n"])
def test_a_head_that_does_not_arrive_ends_the_connection(start: Any, sent: bytes) -> None:
    with connect(start(deadline=0.4)) as raw:
        began = time.monotonic()
        raw.sendall(sent)
        assert rest(raw) == b""
        assert time.monotonic() - began > 0.3


@pytest.mark.parametrize("sent", [HALF, b"\r\n"])
def test_so_does_that_of_a_later_request(start: Any, sent: bytes) -> None:
    with connect(start(deadline=0.4)) as raw:
        for _ in range(3):
            raw.sendall(WHOLE)
            assert raw.recv(4096).startswith(b"HTTP/1.1 200")
            time.sleep(0.2)  # longer than the deadline in all, but every head is complete at once
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
    with connect(start(deadline=0.2, keep_alive=1)) as raw:
        raw.sendall(WHOLE)
        assert raw.recv(4096).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert rest(raw) == b""
        assert time.monotonic() - began > 0.8


@pytest.mark.parametrize("manner", ["keep-alive", "close"])
def test_an_answer_that_is_not_taken_is_cut_off(start: Any, until: Any, passage: str, manner: str) -> None:
    server = start(keep_alive=1)
    body = json.dumps({"question": "Who?", "passage": (passage * 20)[:4000]}).encode()
    head = f"POST /v1/explain HTTP/1.1\r\nhost: x\r\nconnection: {manner}\r\ncontent-type: application/json\r\n"
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(10)
        raw.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        raw.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: server.connections() == 1)
        assert raw.recv(12) == b"HTTP/1.1 200"
        until(lambda: server.connections() == 0)
        assert len(rest(raw)) > 0


def test_a_crowd_is_bounded_and_those_inside_are_served(start: Any, until: Any) -> None:
    server = start(connections=2)
    with connect(server) as first, connect(server) as second:
        until(lambda: server.connections() == 2)
        with connect(server) as third:
            assert rest(third) == b""
        for raw in (first, second):
            raw.sendall(WHOLE)
            assert raw.recv(4096).startswith(b"HTTP/1.1 200")
    until(lambda: server.connections() == 0)
    assert httpx.get(f"{server.url}/livez", trust_env=False).status_code == 200
