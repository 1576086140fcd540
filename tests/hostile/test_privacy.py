"""Nothing leaves the machine, and nothing is written but what was asked for.

Each command runs under strace, which sees what libraries in C do too. Where it is missing, the home folder that must
stay empty and Python's own audit events still tell.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from support.processes import started

import rmreader

PASSAGE = "The letter was written by Ada Lovelace in 1843. It was read aloud in Turin."
QUESTION = "Who wrote the letter?"
CALLS = "connect,sendto,open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
LIVES = 25  # seconds after which ONNX Runtime's telemetry, if it is on, has tried to reach the network
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@dataclass(frozen=True)
class Desk:
    """A folder of somebody's own, with all that a command may write to."""

    folder: Path

    @property
    def home(self) -> Path:
        """Which stays empty."""
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """Home, temporary folder and cache as named."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ORT_", "RMREADER_"))}
        places = {"HOME": self.home, "TMPDIR": self.folder / "tmp", "RMREADER_CACHE": self.folder / "cache"}
        return own | {name: str(path) for name, path in places.items()} | {"PYTHONDONTWRITEBYTECODE": "1"}

    def left_at_home(self) -> list[str]:
        """Files that a command has left where nobody asked for them."""
        return [str(path) for path in self.home.rglob("*")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    for name in ("home", "tmp", "out", "documents"):
        (tmp_path / name).mkdir()
    (tmp_path / "documents" / "letter.txt").write_text(PASSAGE, encoding="utf-8")
    row = {"id": "1", "question": QUESTION, "passage": PASSAGE}
    (tmp_path / "questions.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    examples = [{"question": QUESTION, "passage": f"{k}. {PASSAGE}", "answer": "Ada Lovelace"} for k in range(12)]
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in examples), encoding="utf-8")
    return Desk(tmp_path)


def commands(desk: Desk) -> dict[str, list[str]]:
    """The words of each command that reads and ends by itself."""
    folder = desk.folder
    tuning = ["tune", "small", "--train", f"{folder}/examples.jsonl", "--out", f"{folder}/out/mine", "--device", "cpu"]
    return {
        "ask": ["ask", "--passage", f"{folder}/documents/letter.txt", QUESTION],
        "index": ["index", f"{folder}/documents", "--out", f"{folder}/out/letters.rmindex"],
        "predict": ["predict", f"{folder}/questions.jsonl", "--out", f"{folder}/out/answers.jsonl"],
        "mcp": ["mcp"],
        "tune": [*tuning, "training.epochs=1"],
    }


def mcp_session() -> str:
    """What a client of ``rmreader mcp`` sends."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    ask = {"name": "ask_passage", "arguments": {"question": QUESTION, "passage": PASSAGE}}
    calls = [(1, "initialize", hello), (2, "tools/call", ask)]
    lines = [{"jsonrpc": "2.0", "id": id, "method": method, "params": params} for id, method, params in calls]
    return "".join(json.dumps(line) + "\n" for line in lines)


def strange(trace: Path, desk: Desk) -> list[str]:
    """Calls of a trace that reach another machine, or write outside of what was named."""
    mine = tuple(f"{desk.folder}/{name}" for name in ("out", "tmp", "cache"))
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        if re.search(r"\b(connect|sendto)\(", line):
            if re.search(r"AF_INET6?\b", line) and not re.search(r'"127\.|"::1"', line):
                found.append(line)
        elif " = -1 " not in line and re.search(
            r"O_WRONLY|O_RDWR|O_CREAT|\b(creat|mkdir|rename|link|symlink)\w*\(", line
        ):
            found += [line for path in written_paths(line) if not path.startswith((*mine, "/dev/", "/proc/"))]
    return found


def written_paths(line: str) -> Iterator[str]:
    """The paths of a call, made whole: strace -y gives a relative one's folder before it."""
    for folder, path in re.findall(r'(?:<([^<>]*)>, )?"([^"]*)"', line):
        yield path if path.startswith("/") else f"{folder}/{path}"


def traced(trace: Path, words: list[str]) -> list[str]:
    """A command line under strace, with the calls that matter of all its processes and threads."""
    return ["strace", "-f", "-y", "--seccomp-bpf", "-e", f"trace={CALLS}", "-o", str(trace), sys.executable, *words]


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ask", "index", "predict", "mcp", "tune"])
def test_a_command_reaches_nobody_and_writes_what_was_asked_for(desk: Desk, name: str) -> None:
    if name == "tune":
        pytest.importorskip("torch", reason="torch is not installed")
    words = ["-m", "rmreader", *commands(desk)[name]]
    trace = desk.folder / "trace.txt"
    done = subprocess.run(
        traced(trace, words), env=desk.environment, cwd=desk.folder / "out", input=mcp_session(),
        capture_output=True, text=True, timeout=3000, check=False,  # on a busy machine, traced, tune takes long
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "rmreader" in trace.read_text(errors="replace")  # something was traced
    assert strange(trace, desk) == []
    assert desk.left_at_home() == []


@needs_strace
@pytest.mark.slow
def test_a_server_that_lives_for_a_while_reaches_nobody(desk: Desk) -> None:
    trace = desk.folder / "trace.txt"
    words = ["-m", "rmreader", "serve", "--port", "0"]
    with started(
        traced(trace, words), env=desk.environment, cwd=desk.folder / "out", stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        url = next(json.loads(line)["url"] for line in server.stderr if '"serving"' in line)
        body = json.dumps({"question": QUESTION, "passage": PASSAGE}).encode()
        request = urllib.request.Request(f"{url}/v1/answer", body, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            assert b"Ada Lovelace" in answer.read()
        time.sleep(LIVES)
        for process in psutil.Process(server.pid).children():
            process.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert strange(trace, desk) == []
    assert desk.left_at_home() == []


@needs_strace
def test_the_trace_would_see_it(desk: Desk) -> None:
    script = (
        "import pathlib, socket\n"
        "pathlib.Path.home().joinpath('told').mkdir()\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))\n"
    )
    trace = desk.folder / "trace.txt"
    subprocess.run(
        traced(trace, ["-c", script]), env=desk.environment, cwd=desk.folder / "out", timeout=60, check=False
    )
    seen = "\n".join(strange(trace, desk))
    assert "192.0.2.1" in seen
    assert "/home/told" in seen
    assert desk.left_at_home() == [str(desk.home / "told")]


AUDITED = """
import sys
def hook(event, given):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise SystemExit(f"reached out: {event} {given[1:]}")
sys.addaudithook(hook)
from rmreader.cli import main
main()
"""


@pytest.mark.parametrize("name", ["ask", "index", "predict", "mcp"])
def test_python_connects_to_nobody_and_the_home_stays_empty(desk: Desk, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, *commands(desk)[name]],
        env=desk.environment, cwd=desk.folder / "out", input=mcp_session(), capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert desk.left_at_home() == []


def test_one_module_imports_onnx_runtime() -> None:
    """The one that turns its telemetry off before. Tests, lab and benchmarks import that one first."""
    source = Path(rmreader.__file__).parent
    importing = {path.relative_to(source).as_posix() for path in source.rglob("*.py") if onnx_runtime_in(path)}
    assert importing == {"reading/engine/runtime.py"}
    root = Path(__file__).resolve().parents[2]
    around = [path for folder in ("tests", "lab", "benchmarks") for path in (root / folder).rglob("*.py")]
    assert len(around) > 100
    for path in around:
        where = onnx_runtime_in(path)
        text = path.read_text(encoding="utf-8")
        ours = text.find("rmreader.reading.engine.runtime import")
        assert not where or 0 <= ours < where[0], f"{path}: ONNX Runtime is imported with its telemetry on"


def test_an_import_of_onnx_runtime_is_seen(tmp_path: Path) -> None:
    lines = ["import onnxruntime", "from onnxruntime.tools import x", 'pytest.importorskip("onnxruntime")']
    for number, line in enumerate([*lines, 'import_module("onnxruntime.tools")']):
        path = tmp_path / f"{number}.py"
        path.write_text(f"# before\n{line}\n")
        assert onnx_runtime_in(path) == [len("# before\n")]
    path.write_text("from rmreader.reading.engine.runtime import ort\nassert x('onnxruntime')\n")
    assert onnx_runtime_in(path) == []


def onnx_runtime_in(path: Path) -> list[int]:
    """Where a file imports ONNX Runtime itself, by any way to import."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    starts = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                names = [node.module or ""]
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(name))]):
                names = [name] if called in ("importorskip", "import_module", "__import__") else []
            case _:
                continue
        if any(name.partition(".")[0] == "onnxruntime" for name in names):
            starts.append(sum(map(len, lines[: node.lineno - 1])) + node.col_offset)
    return sorted(starts)
