"""A person's first five minutes: the README's commands, copied from the file and run in order.

    python tests/support/first_minutes.py PYTHON [--without-torch] [--port PORT]

PYTHON is an interpreter with rmreader installed, as by `.ci/wheel` from the wheel alone; `rmreader` beside it is run.
It serves on the README's port unless another is given, or that one is taken.
The commands run in a folder of their own that holds the checkout's examples, with no variables but PATH, HOME and KEPT.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("PYTHONPATH", "OMP_NUM_THREADS", "RMREADER_CACHE")
PORT = 8000  # the README's


def blocks(language: str) -> list[str]:
    """The README's blocks of code under "Use it"."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Use it\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands() -> list[list[str]]:
    """Every command there, in words; what is after a # is for people."""
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


def run(python: str, folder: Path, with_torch: bool = True, port: int = PORT) -> dict[str, str]:
    """What each command printed, by its verb; the last must answer over HTTP before it is stopped."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    home = folder / "home"
    home.mkdir()
    environment = {"PATH": str(Path(python).parent), "HOME": str(home)}
    environment |= {name: os.environ[name] for name in KEPT if name in os.environ}
    program = shutil.which("rmreader", path=environment["PATH"])
    start = [program] if program else [python, "-m", "rmreader"]
    said: dict[str, str] = {}
    for words in commands():
        assert words[0] == "rmreader", words
        if not with_torch and ("tune" in words or "mine/best" in words):
            if "serve" not in words:
                continue
            words = [word.replace("mine/best", "small") for word in words]
        if "serve" in words:
            said["serve"] = _serve([*start, *words[1:]], folder, environment, port)
            continue
        done = subprocess.run(
            [*start, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        said[words[1]] = said.get(words[1], "") + done.stdout
    for block in blocks("python"):
        done = subprocess.run(
            [python, "-c", block], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        said["python"] = done.stdout
    return said


def _serve(command: list[str], folder: Path, environment: dict[str, str], port: int) -> str:
    """Start the server (where the port is taken, on another), ask it, stop it."""
    with socket.socket() as taken:
        port = port if taken.connect_ex(("127.0.0.1", port)) else 8765
    command = command if port == PORT else [*command, "--port", str(port)]
    server = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read()
                break
            except OSError:
                assert server.poll() is None, server.stderr.read() if server.stderr else ""
                time.sleep(0.1)
        asked = {"question": "Who wrote it?", "passage": "The letter was written by Ada Lovelace."}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/answer", json.dumps(asked).encode(), headers)
        answer = urllib.request.urlopen(request, timeout=60).read().decode()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        return str(answer)
    finally:
        server.kill()
        server.wait()
        if server.stderr:
            server.stderr.close()


def check(said: dict[str, str], with_torch: bool = True) -> None:
    """What a person was told to expect."""
    assert said["ask"].count("Ingrid Halvorsen") >= 2  # from the passage, and from the index
    assert "# small" in said["readers"]
    assert "Ada Lovelace" in said["python"]
    assert "Ada Lovelace" in said["serve"]
    if with_torch:
        assert re.search(r"held-out examples +\d+ +after +\d", said["tune"])
        assert "C-310" in said["ask"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--port", type=int, default=PORT)
    options = parser.parse_args()
    torch = not options.without_torch
    with tempfile.TemporaryDirectory() as name:
        check(run(options.python, Path(name), torch, options.port), torch)
        assert "Samuel Osei" in (Path(name) / "answers.csv").read_text(encoding="utf-8")
    print(f"the README's first five minutes: {len(commands())} commands in order" + ("" if torch else ", tuning apart"))
