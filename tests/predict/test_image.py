"""The image itself, as deploy/Containerfile makes it, without root, on a read-only file system and one processor.

    docker build -f deploy/Containerfile -t rmreader . && RMREADER_IMAGE=rmreader pytest tests/predict/test_image.py

RMREADER_ENGINE is the command that runs it, docker by default; podman does as well.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

IMAGE = os.environ.get("RMREADER_IMAGE")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IMAGE, reason="RMREADER_IMAGE names no image")]
KEPT_IN = "--read-only --tmpfs /tmp:size=64m --cpus 1 --memory 1g --cap-drop ALL --security-opt no-new-privileges"
Engine = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def engine() -> Engine:
    command = shlex.split(os.environ.get("RMREADER_ENGINE", "docker"))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture
def server(engine: Engine) -> Iterator[tuple[str, str]]:
    """The name of a container that serves, and its address."""
    name = f"rmreader-{uuid.uuid4().hex[:12]}"
    started = engine("run", "--detach", "--name", name, "--publish", "127.0.0.1::8000", *KEPT_IN.split(), str(IMAGE))
    try:
        assert started.returncode == 0, started.stderr
        yield name, f"http://{engine('port', name, '8000/tcp').stdout.split()[0]}"
    finally:
        engine("rm", "--force", name)


def get(url: str, body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        return str(answer.read().decode())


def test_it_serves_is_healthy_and_drains(engine: Engine, server: tuple[str, str]) -> None:
    name, url = server
    form = "{{json .Config.Healthcheck}}"  # made with `podman build` it has none, unless --format docker is given
    check = json.loads(engine("image", "inspect", "--format", form, str(IMAGE)).stdout)["Test"][1:]
    until = time.monotonic() + 20  # its start period
    while engine("exec", name, *check).returncode:
        assert time.monotonic() < until
        time.sleep(0.2)
    asked = {"question": "Who wrote it?", "passage": "The book was written by Ada Lovelace in 1843."}
    assert json.loads(get(f"{url}/v1/answer", asked))["answer"]["text"] == "Ada Lovelace"
    assert "\nrmreader_waiting_questions 0.0\n" in get(f"{url}/metrics")
    assert engine("exec", name, "id", "-u").stdout == "10001\n"
    assert engine("exec", name, "touch", "/venv/x").returncode == 1
    assert engine("exec", name, "touch", "/tmp/x").returncode == 0
    doctor = " ".join(engine("exec", name, "rmreader", "doctor").stdout.split())
    assert "read with 1 thread" in doctor
    assert "8-bit readers in C" in doctor
    assert "reader base" in doctor
    began = time.monotonic()
    engine("stop", "-t", "30", name)
    assert 5 <= time.monotonic() - began < 20  # the drain delay, and no kill
    assert engine("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip() == "0"
    assert '"stopped"' in (lines := engine("logs", name)).stdout + lines.stderr


@pytest.mark.parametrize("model", ["small", "base"])
def test_it_makes_parts_that_are_as_ever(
    engine: Engine, rmreader: Callable[..., object], tmp_path: Path, model: str
) -> None:
    rows = [
        {"id": str(k), "question": "Who wrote it?", "passage": f"Volume {k} was written by Ada Lovelace."}
        for k in range(9)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    user, volume = f"{os.getuid()}:{os.getgid()}", f"{tmp_path}:/data"
    command = ["run", "--rm", "--network", "none", *KEPT_IN.split(), "--user", user, "--volume", volume, str(IMAGE)]
    for shard in range(2):
        words = ["predict", "/data/rows.jsonl", "--model", model, "--out", "/data/parts", "--shard", f"{shard}/2"]
        done = engine(*command, *words)
        assert done.returncode == 0, done.stderr
    done = engine(*command, "predict", "--merge", "/data/parts", "--out", "/data/merged.jsonl")
    assert done.returncode == 0, done.stderr
    rmreader("predict", tmp_path / "rows.jsonl", "--model", model, "--out", tmp_path / "whole.jsonl")
    assert (tmp_path / "merged.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
