"""Where uvicorn is not the one that the protection was written for, the server runs without it."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmreader.server import transport

ROOT = Path(__file__).parents[2]
ASK = {"question": "Who wrote it?", "passage": "The letter was written by Ada Lovelace."}


def test_this_uvicorn_fits() -> None:
    assert asyncio.run(transport.misfit()) is None


@pytest.mark.parametrize("part", ["_unset_keepalive_if_required", "on_headers_complete"])
def test_a_uvicorn_that_lacks_a_part_serves_unprotected_and_says_so(
    start: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    caplog.set_level(logging.INFO, "rmreader.server")
    # The part is missed in the trial alone: uvicorn itself goes on with what it has.
    trial = transport.misfit

    async def misfit() -> str | None:
        with monkeypatch.context() as patch:
            patch.delattr(transport.HttpToolsProtocol, part)
            return await trial()

    monkeypatch.setattr(transport, "misfit", misfit)
    server = start()
    assert server.post("/v1/answer", ASK).json()["answer"]["text"] == "Ada Lovelace"
    (record,) = [record for record in caplog.records if record.message == "unprotected"]
    assert record.fields["reason"].startswith("uvicorn ")  # type: ignore[attr-defined]


def test_it_serves_without_httptools_and_uvloop() -> None:
    code = """
import sys
sys.modules["httptools"] = sys.modules["uvloop"] = None
from rmreader.server import transport
assert "httptools" in transport.MISSING
import threading, time, httpx
from rmreader.server.application import load_app
from rmreader.server.server import HttpServer, listen
from rmreader.server.settings import Settings
from rmreader.server.logs import to_stderr
to_stderr()
settings = Settings(port=0)
server, listener = HttpServer(load_app("small", settings), settings), listen(settings)
port = listener.getsockname()[1]
threading.Thread(target=server.run, kwargs={"sockets": [listener]}).start()
ask = {"question": "Who wrote it?", "passage": "The letter was written by Ada Lovelace."}
try:
    while not server.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{port}/v1/answer"
    print(httpx.post(url, json=ask, trust_env=False, timeout=30).json()["answer"]["text"])
finally:
    server.should_exit = True
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stdout) == (0, "Ada Lovelace\n"), done.stderr
    assert '"event": "unprotected"' in done.stderr
