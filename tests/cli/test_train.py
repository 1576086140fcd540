"""``rmreader train`` on a network small enough to train here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app

RUN = CliRunner()


def test_training_leaves_a_reader_and_says_where(trained: Any) -> None:
    assert trained.result.exit_code == 0, trained.result.output
    said = json.loads(trained.result.stdout)
    assert said["best"] == trained.model
    assert said["finished"] is True
    assert (said["dev"]["total"], 0 <= said["dev"]["f1"] <= 100) == (8, True)
    assert (Path(trained.model) / "reader.json").is_file()


def test_a_folder_that_holds_a_run_is_not_overwritten(trained: Any) -> None:
    words = [
        "train",
        str(trained.folder / "recipe.yaml"),
        "--train",
        trained.data,
        "--out",
        str(trained.folder / "run"),
    ]
    done = RUN.invoke(app, words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "--resume" in done.stderr


def test_a_finished_run_resumes_to_what_it_was(trained: Any) -> None:
    words = ["train", str(trained.folder / "recipe.yaml"), "training.rate=0.01", "--train", trained.data]
    words += ["--dev", trained.data, "--out", str(trained.folder / "run"), "--device", "cpu", "--resume"]
    again = RUN.invoke(app, [*words, "--json"])
    assert json.loads(again.stdout) == json.loads(trained.result.stdout)
    table = RUN.invoke(app, words).stdout.splitlines()
    assert table[0].startswith("F1 on held-out articles")
    assert table[-1] == trained.model


@pytest.mark.parametrize("missing", ["--train", "--dev"])
def test_a_missing_data_file_is_one_sentence(trained: Any, tmp_path: Path, missing: str) -> None:
    files = {"--train": trained.data, "--dev": trained.data, missing: str(tmp_path / "none.json")}
    words = ["train", str(trained.folder / "recipe.yaml"), "--out", str(tmp_path / "run")]
    done = RUN.invoke(app, [*words, *(word for pair in files.items() for word in pair)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert str(tmp_path / "none.json") in done.stderr


def test_without_torch_the_sentence_names_the_extra(trained: Any) -> None:
    words = ["train", str(trained.folder / "recipe.yaml"), "--train", "t", "--out", "o"]
    code = f"import sys; sys.modules['torch'] = None; sys.argv = {['rmreader', *words]}; import rmreader.__main__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'rmreader[train]'" in done.stderr
    assert done.stderr.count("\n") == 1
