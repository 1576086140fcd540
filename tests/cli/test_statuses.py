"""The command line as a process: exit statuses, one sentence on stderr, nothing but results on stdout."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from support.processes import started

COMMAND = [sys.executable, "-m", "rmreader"]


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=600, **options)  # type: ignore[call-overload,no-any-return]


def test_help_lists_the_verbs() -> None:
    done = run("--help")
    assert done.returncode == 0
    for verb in ("ask", "predict", "evaluate", "train", "recipe", "data", "doctor"):
        assert f" {verb} " in done.stdout


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert run("--version").stdout.strip() == version("rmreader")


def test_starting_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'onnxruntime', 'yaml', 'rich', 'transformers', 'spacy', 'fastapi'}"
    code = f"import sys, rmreader.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["recipe"], ["--help"], ["--version"], ["ask", "--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])  # the last flush fails too where there is a buffer
def test_a_full_disk_is_one_sentence(unbuffered: str, arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=600, env=environment
        )
    assert done.returncode == 1
    place = "" if unbuffered else "standard output: "  # Python says where by what it has kept
    assert done.stderr == f"error: {place}No space left on device; make room, and try again.\n"


@pytest.mark.parametrize("arguments", [["chat", "good.txt"], ["ask", "--passage", "-", "Who?"]])
def test_closed_standard_input_is_one_sentence(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("Ada lit the lamp.")
    command = shlex.join([*COMMAND, *arguments]) + " <&-"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with started([*COMMAND, "recipe"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything is written
        complaint = process.stderr.read()
        assert (process.wait(60), complaint) == (141, b"")


def test_control_c_is_status_130(tmp_path: Path) -> None:
    pipe = tmp_path / "passage"
    os.mkfifo(pipe)
    command = [*COMMAND, "ask", "--passage", str(pipe), "Who?"]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        writer = _open_once_read(pipe)  # from here on the command waits for the passage
        _press_control_c(process)
        out, complaint = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, out, complaint) == (130, b"", b"interrupted\n")


@pytest.mark.parametrize("moment", ["waits", "exits", "is torn down"])
def test_a_second_control_c_is_status_130(moment: str) -> None:
    """At each moment of the end, by a signal that the program sends itself there."""
    program = """
import atexit, signal, sys, threading
import rmreader.cli

door = sys.modules["rmreader.cli.app"]

def press(*_, end=signal.raise_signal, number=signal.SIGINT, **__):
    end(number)

class Last:
    __del__ = press

moment = sys.argv.pop()
if moment == "waits":
    threading._register_atexit(press)
if moment == "exits":
    atexit.register(press)
if moment == "is torn down":
    last = Last()

@door.app.command()
def wait():
    raise KeyboardInterrupt

door.main()
"""
    signal_is_heard = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    done = subprocess.run(
        [sys.executable, "-c", program, "wait", moment], capture_output=True, text=True, preexec_fn=signal_is_heard
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def _press_control_c(process: subprocess.Popen[bytes]) -> None:
    """As a person does: again where nothing is said. Python looks for signals before a read, and one that comes
    between the look and the read is only seen after it. One that comes while it ends would be its end."""
    for _ in range(12):
        process.send_signal(signal.SIGINT)
        said, _, _ = select.select([process.stderr], [], [], 5)
        if said:
            return
    raise AssertionError("it does not end")


def _open_once_read(pipe: Path) -> int:
    """The writing end of a named pipe, as soon as somebody reads the other."""
    for _ in range(600):
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("nobody came to read")


def test_settings_are_printed_with_their_help() -> None:
    from rmreader.core.recipe import NetworkConfig, Training
    from rmreader.core.settings import field_help

    printed = run("recipe").stdout
    for name, cls in (("network", NetworkConfig), ("training", Training)):
        for key, text in field_help(cls).items():
            assert f"{name}.{key} " in printed
            assert text in printed


def test_a_recipe_is_shown_beside_the_defaults(tmp_path: Path) -> None:
    import json

    (tmp_path / "r.yaml").write_text("network: {blocks: 2}\n")
    shown = json.loads(run("recipe", "r.yaml", "training.rate=1e-4", "--json", cwd=tmp_path).stdout)
    assert (shown["network"]["blocks"]["value"], shown["network"]["blocks"]["default"]) == (2, 3)
    assert shown["training"]["rate"]["value"] == 1e-4
    plain = run("recipe", "r.yaml", cwd=tmp_path).stdout
    assert any(line.split()[:3] == ["network.blocks", "2", "3"] for line in plain.splitlines())


def test_settings_are_shown_changed_without_a_recipe_and_with_what_is_allowed() -> None:
    import json

    shown = json.loads(run("recipe", "network.blocks=5", "--json").stdout)
    assert (shown["network"]["blocks"]["value"], shown["network"]["blocks"]["default"]) == (5, 3)
    assert shown["network"]["blocks"]["allowed"] == "at least 1"
    assert shown["network"]["attention"]["allowed"] == "relu | dot"
    assert shown["training"]["betas"]["allowed"] == "at least 0 and below 1"
    plain = run("recipe", "network.blocks=5").stdout
    assert any(line.split()[:6] == ["network.blocks", "5", "3", "at", "least", "1"] for line in plain.splitlines())


def test_a_number_that_makes_no_sense_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("{}\n")
    words = ["train", "r.yaml", "network.hidden=0", "--train", "none.json", "--out", "run"]
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: r.yaml: network: hidden must be at least 1; it is 0.\n"
    assert not (tmp_path / "run").exists()
