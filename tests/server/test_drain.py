"""SIGTERM: unready first, then the door closes, what was accepted is answered, and the process ends with 0."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from support.processes import started

from rmreader.cli.serve import setting_words
from rmreader.core.errors import UserError
from rmreader.server.logs import WAITING_LINES
from rmreader.server.server import listen
from rmreader.server.settings import Settings, settings_from_words
from rmreader.server.transport import FAREWELL


def command(reader_name: str, **settings: Any) -> list[str]:
    """The command line that serves a reader."""
    options = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "rmreader", "serve", "--model", reader_name, *options]


class Process:
    """A server in a process of its own, and the lines it logged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(json.loads(line))
            if self.lines[-1]["event"] == "serving":
                break
        self.url = self.lines[-1]["url"]

    def end(self) -> int:
        """Its exit status, once it has ended by itself."""
        _, rest = self.process.communicate(timeout=60)
        self.lines += map(json.loads, rest.splitlines())
        return self.process.returncode


@pytest.fixture
def launch(reader_name: str) -> Iterator[Callable[..., Process]]:
    with contextlib.ExitStack() as stack:

        def one(**settings: Any) -> Process:
            words = command(reader_name, port=0, **settings)
            return Process(stack.enter_context(started(words, stderr=subprocess.PIPE, text=True)))

        yield one


def waiting(url: str) -> float:
    """Questions in the queue, as /metrics tells."""
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("rmreader_waiting_questions "))


def listens(url: str) -> bool:
    """Whether a server still accepts connections. It is asked nothing, so that it logs nothing."""
    with socket.socket() as raw:
        return raw.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


def test_sigterm_loses_no_accepted_request(launch: Callable[..., Process], passage: str) -> None:
    server = launch(batch=1, deadline=120.0)
    ask = {"question": "Who was the engineer?", "passage": passage * 50}

    def client() -> httpx.Response | None:
        with contextlib.suppress(httpx.TransportError):  # came too late to be accepted
            return httpx.post(f"{server.url}/v1/answer", json=ask, timeout=150, trust_env=False)
        return None

    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(client) for _ in range(12)]
        while waiting(server.url) < 6:
            assert not all(one.done() for one in asked)
            time.sleep(0.002)
        server.process.send_signal(signal.SIGTERM)
        answers = [answer for one in asked if (answer := one.result()) is not None]
    assert len(answers) > 6
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert answers[-1].headers["connection"] == "close"
    assert server.end() == 0
    events = [line["event"] for line in server.lines]
    assert "draining" in events
    assert events[-1] == "stopped"
    assert sum(line.get("path") == "/v1/answer" for line in server.lines) == len(answers)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/livez", trust_env=False)


def starve(process: subprocess.Popen[str]) -> None:
    """Give a process next to no time for some seconds, as a busy machine does."""
    for _ in range(5):
        time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        time.sleep(FAREWELL + 0.2)
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("is_starved", [False, True])
def test_sigterm_in_the_same_instant_as_many_connects_loses_none(
    launch: Callable[..., Process], passage: str, is_starved: bool
) -> None:
    server = launch(deadline=120.0)  # else a server that had no time says so: 503
    port = int(server.url.rpartition(":")[2])
    body = json.dumps({"question": "Who was the engineer?", "passage": passage}).encode()
    head = b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    call = head + b"content-length: %d\r\n\r\n" % len(body) + body
    with contextlib.ExitStack() as stack:
        # While the process is stopped, the kernel accepts for it: all of this comes at once.
        server.process.send_signal(signal.SIGSTOP)
        clients = []
        for _ in range(100):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
            clients.append(client)
        for client in clients[:50]:
            client.sendall(call)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        for client in clients[50:]:
            client.sendall(call)
        if is_starved:
            starve(server.process)
        answers = []
        for client in clients:
            with client.makefile("rb") as stream:
                answers.append(stream.read())
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 200 "] * 100
    assert all(b"Josiah Penn" in answer for answer in answers)
    assert server.end() == 0


def test_the_command_serves_documents_with_answers_as_long_as_asked_for(
    launch: Callable[..., Process], shelf: Any, passage: str
) -> None:
    server = launch(index=shelf.place, max_answer_length=1)
    asked = {"question": "Who built the lighthouse?", "always": True}
    cited = httpx.post(f"{server.url}/v1/ask", json=asked, trust_env=False, timeout=30).json()["answers"]
    assert cited[0]["document"].startswith("harbour/")
    ask = {"question": "Who was the engineer?", "passage": passage, "always": True}
    told = httpx.post(f"{server.url}/v1/answer", json=ask, trust_env=False, timeout=30).json()["answer"]
    for answer in [told, *cited]:
        assert " " not in answer["text"]  # of one word
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0


def test_it_turns_unready_before_the_door_closes(launch: Callable[..., Process], passage: str) -> None:
    server = launch(drain_delay=4.0)  # long enough for four requests, however busy the machine is
    assert httpx.get(f"{server.url}/readyz", trust_env=False).status_code == 200
    server.process.send_signal(signal.SIGTERM)
    while (unready := httpx.get(f"{server.url}/readyz", trust_env=False)).status_code == 200:
        time.sleep(0.01)  # the signal is still on its way
    assert unready.status_code == 503
    assert unready.json()["error"]["code"] == "not_ready"
    assert httpx.get(f"{server.url}/livez", trust_env=False).status_code == 200
    ask = {"question": "Who?", "passage": passage}
    late = httpx.post(f"{server.url}/v1/answer", json=ask, trust_env=False)  # the balancer has not noticed yet
    assert late.status_code == 200
    assert server.end() == 0


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="only Linux has pipes as small as one likes")
@pytest.mark.parametrize("read_again", [True, False])
def test_a_log_that_nobody_reads_stops_neither_the_server_nor_its_end(
    launch: Callable[..., Process], until: Any, monkeypatch: pytest.MonkeyPatch, read_again: bool
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    server = launch()
    fcntl.fcntl(server.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        for _ in range(WAITING_LINES + 500):  # far more lines than the pipe holds, or the server keeps
            assert client.get("/livez").status_code == 200
    server.process.send_signal(signal.SIGTERM)
    if not read_again:
        assert server.process.wait(20) == 0
        return
    until(lambda: not listens(server.url))  # the signal has come, and the line before it is not yet written
    assert server.end() == 0
    events = [line["event"] for line in server.lines]
    assert [event for event in events if event != "request"] == ["serving", "log_dropped", "draining", "stopped"]
    dropped = next(line for line in server.lines if line["event"] == "log_dropped")
    assert dropped["lines"] + events.count("request") == WAITING_LINES + 500  # each is there, or counted


def test_sighup_drains_too(launch: Callable[..., Process]) -> None:
    server = launch()
    server.process.send_signal(signal.SIGHUP)
    assert server.end() == 0
    events = [(line["event"], line.get("signal")) for line in server.lines]
    assert events[-2:] == [("draining", "SIGHUP"), ("stopped", None)]


def test_ctrl_c_on_an_idle_server_ends_it_at_once(launch: Callable[..., Process]) -> None:
    server = launch(drain_delay=600.0)
    server.process.send_signal(signal.SIGINT)
    assert server.end() == 0  # which waits for a minute, not for the delay


def test_a_port_that_is_taken_is_one_sentence(server: Any, reader_name: str) -> None:
    port = int(server.url.rpartition(":")[2])
    done = subprocess.run(command(reader_name, port=port), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: 127.0.0.1:{port}: cannot listen there (Address already in use)")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("host", ["a..b", "a" * 70, "ä..b", "ä" * 70, "\udcff"])
def test_so_is_a_host_that_is_no_name(reader_name: str, host: str) -> None:
    done = subprocess.run(command(reader_name, host=host), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert ": cannot listen there (" in done.stderr
    assert done.stderr.count("\n") == 1


def test_of_two_servers_started_together_the_second_is_refused() -> None:
    with listen(Settings(port=0)) as first, pytest.raises(UserError, match="cannot listen there"):
        listen(Settings(port=first.getsockname()[1]))  # though the first has not begun to serve


def test_every_setting_is_in_the_help() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "rmreader", "serve", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "400"},
    ).stdout
    for field in dataclasses.fields(Settings):
        assert field.name in shown or f"--{field.name.replace('_', '-')}" in shown


@pytest.mark.parametrize("field", dataclasses.fields(Settings), ids=lambda field: field.name)
def test_every_setting_is_a_word_and_an_option(field: Any) -> None:
    value = {"host": "::1", "log": "json"}.get(field.name, "77")
    name = field.name.replace("_", "-")
    for words in ([f"{field.name}={value}"], [f"--{name}", value], [f"--{name}={value}"]):
        settings = settings_from_words(setting_words(words), "server setting")
        assert str(getattr(settings, field.name)) in (value, f"{value}.0")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["deadlin=3"], "unknown key 'deadlin'; the nearest is 'deadline'"),
        (["--deadlin", "3"], "unknown key 'deadlin'; the nearest is 'deadline'"),
        (["--deadline"], "--deadline needs a value"),
        (["deadline"], "write a setting as KEY=VALUE"),
        (["queue=many"], "queue must be a number; it is 'many'"),
        (["--queue=0"], "queue must be at least 1"),
        (["--log", "loud"], "log must be one of auto, json, text"),
    ],
)
def test_a_wrong_setting_is_one_sentence(words: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "rmreader", "serve", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_on_a_terminal_it_says_what_to_open(reader_name: str) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(command(reader_name, port=0), stderr=slave)
    os.close(slave)
    try:
        with os.fdopen(master, "rb", buffering=0) as terminal:
            text = b""
            while b"\n" not in text:
                text += terminal.read(1000)
            url = text.decode().split()[1]
            assert text.decode().strip() == f"open {url}  (Ctrl-C stops)"
            odd = f"{url}/a%1B%5B31m%0A"
            assert httpx.get(odd, trust_env=False).status_code == 404
            text = b""
            while b"\n" not in text:
                text += terminal.read(1000)
            assert b"GET /a\\x1b[31m\\n 404 " in text
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_no_other_command_reads_the_servers_settings() -> None:
    code = """
import sys, typer
from rmreader.cli.app import app
import rmreader.cli
assert "serve" in typer.main.get_command(app).commands
print([name for name in sys.modules if name.startswith("rmreader.server")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
