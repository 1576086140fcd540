"""The tests themselves: what they start ends with them, and where they run changes nothing."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.processes import started

TESTS = Path(__file__).resolve().parent
OWN_START = {"support/processes.py", "support/warm.py", "support/kill_many.py", "support/first_minutes.py"}
OWN_START |= {"mutants.py", "predict/three_nodes.py"}
"""Files that may call ``Popen``: programs of their own, which end what they start."""
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"


def run_tests(
    folder: Path, content: str, environment: Mapping[str, str] = os.environ, through: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a file of tests under our conftest in a process of its own, started ``through`` another command."""
    (folder / "test_it.py").write_text(content, encoding="utf-8")
    words = [*through, sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words += ["-c", os.devnull, "--rootdir", str(folder), "test_it.py"]
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS.parent / "src")))}
    return subprocess.run(
        words, cwd=folder, env={**environment, **paths}, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which signals a process ignores")
def test_children_of_tests_are_stopped_by_signals_though_the_tests_ignore_them(tmp_path: Path) -> None:
    """As under ``nohup``, or in the background of a shell."""
    test = (
        "import re, signal, subprocess, sys\n"
        "def test_it():\n"
        "    status = subprocess.check_output(['cat', '/proc/self/status'], text=True)\n"
        "    mask = int(re.search(r'SigIgn:\\s*(\\w+)', status)[1], 16)\n"
        "    stopped = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)\n"
        "    assert [number for number in stopped if mask >> (number - 1) & 1] == []\n"
    )
    done = run_tests(tmp_path, test, through=["sh", "-c", 'trap "" HUP INT QUIT TERM; exec "$@"', "sh"])
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_test_that_leaves_a_process_fails_and_the_process_is_ended(tmp_path: Path, still_there: Any) -> None:
    done = run_tests(
        tmp_path,
        "import subprocess, sys\n"
        "def test_it():\n"
        f"    child = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}])\n"
        "    open('pid', 'w').write(str(child.pid))\n",
    )
    assert "this test left processes running" in done.stdout
    assert done.returncode == 1
    with contextlib.suppress(psutil.NoSuchProcess):  # which it is, unless nobody has yet asked for its status
        assert still_there([psutil.Process(int((tmp_path / "pid").read_text()))]) == []


def test_what_a_test_starts_ends_though_the_test_fails() -> None:
    with pytest.raises(ZeroDivisionError), started([sys.executable, "-c", SLEEPS]) as process:
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_what_a_test_starts_ends_though_the_tests_are_killed(still_there: Any) -> None:
    script = (
        "import subprocess, sys, time\n"
        "from support.processes import started\n"
        f"with started([sys.executable, '-c', {SLEEPS!r}], stdout=subprocess.PIPE) as child:\n"
        "    child.stdout.readline()\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with started([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        child = psutil.Process(int(tests.stdout.readline()))
        tests.kill()
        tests.wait()
        assert still_there([child]) == []


@pytest.mark.parametrize("home", [None, "", "/nowhere/at/all", "/proc/self"])
def test_a_home_that_cannot_be_written_to_is_replaced(tmp_path: Path, home: str | None) -> None:
    test = (
        "import os, pathlib\n"
        "def test_it():\n"
        "    home = pathlib.Path(os.environ['HOME'])\n"
        "    (home / '.cache').mkdir()\n"
        "    open('home', 'w').write(str(home))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = run_tests(tmp_path, test, environment if home is None else environment | {"HOME": home})
    assert done.returncode == 0, done.stdout + done.stderr
    assert not Path((tmp_path / "home").read_text()).exists()  # it is removed with the tests


def calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    """Calls of methods or functions of these names, anywhere in a tree."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            found.append(node)
    return found


def test_no_test_starts_a_process_that_nothing_ends() -> None:
    """``subprocess.Popen`` alone ends nothing: ``support.processes.started`` does, or ``finally`` must."""
    left = []
    for path in sorted(TESTS.rglob("*.py")):
        place = path.relative_to(TESTS).as_posix()
        if place in OWN_START:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            tries = [node for node in ast.walk(function) if isinstance(node, ast.Try)]
            ended = any(calls(last, "kill", "terminate") for one in tries for last in one.finalbody)
            left += [f"{place}:{call.lineno}" for call in calls(function, "Popen") if not ended]
    assert left == []
