"""The app is plain ASGI: the same tests pass under every server, mounted, and in a test client."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

import rmreader.server
from rmreader.core.errors import UserError
from rmreader.server.application import create_app
from rmreader.server.settings import Settings, settings_from_environment

ASK = {"question": "Who wrote it?", "passage": "The letter was written by Ada Lovelace."}
KEY = {"x-api-key": "s3cret"}
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "uvicorn": lambda place: ["uvicorn", "--factory", "rmreader.server:app", "--uds", place],
    "hypercorn": lambda place: ["hypercorn", "rmreader.server:app()", "--bind", f"unix:{place}"],
    "granian": lambda place: [
        "granian", "--interface", "asgi", "--factory", "rmreader.server:app", "--uds", place,
    ],
}  # fmt: skip


@dataclasses.dataclass
class Hosted:
    """The app somewhere, and a client of it."""

    client: Any
    prefix: str = ""

    def post(self, path: str, body: Any, **options: Any) -> Any:
        return self.client.post(self.prefix + path, json=body, headers=KEY, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.client.get(self.prefix + path, **options)


@contextlib.contextmanager
def in_a_process(server: str, folder: Path) -> Iterator[Hosted]:
    """Run the app under another server, which listens on a socket in a folder."""
    pytest.importorskip(server, reason=f"{server} is not installed")
    place = str(folder / "socket")
    environment = {**os.environ, "RMREADER_API_KEY": "s3cret", "RMREADER_MAX_BODY": "5000"}
    log = (folder / "log").open("w")
    command = [sys.executable, "-m", *COMMANDS[server](place)]
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while not accepts(place):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.05)
        transport = httpx.HTTPTransport(uds=place)
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client:
            yield Hosted(client)
        process.terminate()
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        log.close()


def accepts(place: str) -> bool:
    """Whether a server listens there."""
    with socket.socket(socket.AF_UNIX) as raw:
        return raw.connect_ex(place) == 0


@pytest.fixture(scope="module", params=["uvicorn", "hypercorn", "granian", "mounted", "test client"])
def hosted(request: pytest.FixtureRequest, reader: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    settings = Settings(api_key="s3cret", max_body=5000)
    if request.param == "test client":
        with TestClient(create_app(reader, settings), base_url="http://localhost") as client:
            yield Hosted(client)
    elif request.param == "mounted":
        fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed")
        outer = fastapi.FastAPI()
        outer.mount("/reader", create_app(reader, settings))
        with TestClient(outer, base_url="http://localhost") as client:
            yield Hosted(client, "/reader")
    else:
        with in_a_process(request.param, tmp_path_factory.mktemp("server")) as one:
            yield one


def test_questions_are_answered(hosted: Hosted) -> None:
    assert hosted.post("/v1/answer", ASK).json()["answer"]["text"] == "Ada Lovelace"
    items = hosted.post("/v1/answers", {"items": [ASK, ASK]}).json()["items"]
    assert [item["answer"]["text"] for item in items] == ["Ada Lovelace"] * 2
    assert hosted.post("/v1/explain", ASK).json()["rounds"]


def test_what_cannot_be_served_is_refused(hosted: Hosted) -> None:
    def code(response: Any) -> tuple[int, str]:
        return response.status_code, response.json()["error"]["code"]

    assert code(hosted.post("/v1/answer", {"question": "Who?"})) == (422, "invalid")
    assert code(hosted.post("/v1/answer", {**ASK, "passage": "p" * 6000})) == (413, "too_large")
    assert code(hosted.post("/v1/ask", {"question": "Who?"})) == (404, "no_index")
    assert code(hosted.get("/v1/answer", headers=KEY)) == (405, "method_not_allowed")
    assert code(hosted.get("/nothing")) == (404, "not_found")
    assert code(hosted.get("/v1/answer")) == (401, "unauthorized")
    assert code(hosted.get("/livez", headers={"host": "evil.example"})) == (421, "wrong_host")


def test_the_rest_is_there(hosted: Hosted) -> None:
    for path in ("/health", "/readyz", "/readyz/"):
        assert hosted.get(path).json() == {"status": "ready"}
    assert hosted.get("/livez").json() == {"status": "alive"}
    page = hosted.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert hosted.get("/docs").status_code == 200
    assert "/v1/answer" in hosted.get("/openapi.json").json()["paths"]
    head = hosted.client.head(hosted.prefix + "/page.js")
    assert (head.status_code, head.content) == (200, b"")
    assert 'route="/readyz",status="200"' in hosted.get("/metrics").text


def test_a_client_without_a_lifespan_is_answered_on_every_loop(reader: Any) -> None:
    client = TestClient(create_app(reader, Settings()), base_url="http://localhost")
    for _ in range(3):  # each call has an event loop of its own
        assert client.post("/v1/answer", json=ASK).json()["answer"]["text"] == "Ada Lovelace"


def test_a_client_that_leaves_under_plain_uvicorn_is_noticed(
    reader: Any, until: Callable[[Callable[[], bool]], None], tmp_path: Path
) -> None:
    began = threading.Event()

    class Endless:
        parts = 0

        def ask_in_parts(self, *_: Any, **__: Any) -> Iterator[Any]:
            for _ in range(2000):
                self.parts += 1
                began.set()
                time.sleep(0.02)
                yield None
            yield []

    endless = Endless()
    app = create_app(endless, Settings(deadline=600))  # type: ignore[arg-type]
    config = uvicorn.Config(app, uds=str(tmp_path / "socket"), log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        body = b'{"question": "Who?", "passage": "' + b"." * 50_000 + b'"}'
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(tmp_path / "socket"))
            raw.sendall(
                b"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n" % len(body) + body
            )
            assert began.wait(60)
        batcher = app.state.batcher
        until(lambda: not batcher.reading and not batcher.pending)
        assert endless.parts < 2000
    finally:
        server.should_exit = True
        thread.join(60)
    assert not thread.is_alive()


def test_settings_come_from_the_environment_and_from_arguments() -> None:
    environment = {"RMREADER_DEADLINE": "3.5", "RMREADER_QUEUE": "99", "RMREADER_MODEL": "base"}
    settings, model = settings_from_environment({"queue": 100}, environment)
    assert (settings.deadline, settings.queue, model) == (3.5, 100, "base")
    for name, value in (("QUEUE", "many"), ("QUEUE", "0"), ("PORT", "70000"), ("DEADLINE", "nan")):
        with pytest.raises(UserError, match=rf"environment: {name.lower()} must be"):
            settings_from_environment({}, {f"RMREADER_{name}": value})


def test_the_factory_takes_arguments() -> None:
    app = rmreader.server.app("small", max_body=5000)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.post("/v1/answer", json=ASK).json()["answer"]["text"] == "Ada Lovelace"
        assert client.post("/v1/answer", json={**ASK, "passage": "p" * 6000}).status_code == 413
