"""Real engines on this machine, each losing a part of itself: every row is there once, as one process writes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.questions import write_questions

Run = Callable[..., subprocess.CompletedProcess[str]]
HERE = Path(__file__).parent
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'rmreader[ray]'")
needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None, reason="pyspark is not installed: pip install 'rmreader[spark]'"
)
pytestmark = pytest.mark.slow


def run(script: str, *words: object) -> str:
    command = [sys.executable, str(HERE / script), *map(str, words)]
    # no cluster of somebody else's; and at their usual niceness, 15, Ray's workers stand still beside other work
    own = {**os.environ, "RAY_ADDRESS": "local", "RAY_worker_niceness": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=own)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@needs_ray
@pytest.mark.parametrize("port", [[], ["10391"]], ids=["as a member", "as a client"])
def test_ray_with_a_node_that_is_killed(tmp_path: Path, rmreader: Run, port: list[str]) -> None:
    data, out = write_questions(tmp_path / "data.jsonl", 600), tmp_path / "out.jsonl"
    assert "of a node at work when" in run("three_nodes.py", data, tmp_path / "parts", 12, *port)
    rmreader("predict", "--merge", tmp_path / "parts", "-o", out)
    rmreader("predict", data, "-o", tmp_path / "one.jsonl")
    assert out.read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    ids = [json.loads(line)["id"] for line in out.read_bytes().splitlines()]
    assert len(ids) == len(set(ids)) == 600


@needs_ray
def test_ray_of_this_machine_ray_data_and_what_is_wrong_there(tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data.jsonl", 300)
    said = run("ray_here.py", data, tmp_path)
    assert "same file, same table" in said
    assert "refused: 0" in said
    assert "no machine there has 1000 processors" in said


@needs_spark
def test_spark_with_an_executor_that_is_killed(tmp_path: Path, rmreader: Run) -> None:
    import pyarrow.parquet

    data = write_questions(tmp_path / "data.jsonl", 600)
    assert "killed" in run("spark_executors.py", data, tmp_path / "spark", 8)
    rmreader("predict", data, "-o", tmp_path / "one.parquet", "--top", "2")
    expected = pyarrow.parquet.read_table(tmp_path / "one.parquet").to_pylist()
    found = pyarrow.parquet.read_table(tmp_path / "spark").to_pylist()
    good = [row for row in found if row.pop("problem") is None]

    def place(row: dict[str, object]) -> tuple[object, object]:
        return row["id"], row["rank"]

    assert sorted(good, key=place) == sorted(expected, key=place)
    assert len(found) - len(good) == 12  # the bad rows
