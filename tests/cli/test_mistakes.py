"""Mistakes at the command line: each is refused before any work, in one short sentence that names what it is about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app

RUN = CliRunner()


def refused(*words: object, status: int = 1) -> str:
    """What is said on stderr."""
    done = RUN.invoke(app, [str(word) for word in words])
    assert (done.exit_code, done.stdout) == (status, "")
    assert len(done.stderr) < 1000
    if status == 1:
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
    return " ".join(done.stderr.replace("│", " ").split())  # usage errors are in a box


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """A data file without a question."""
    (tmp_path / "none.json").write_text('{"data": []}')
    return tmp_path / "none.json"


def test_predictions_do_not_overwrite_what_they_are_made_from(trained: Any, tmp_path: Path) -> None:
    own, before = tmp_path / "own.json", Path(trained.data).read_bytes()
    own.write_bytes(before)
    assert "which this command reads" in refused("predict", own, "-m", trained.model, "-o", own)
    assert own.read_bytes() == before
    both = f"small,{trained.model}"  # every reader of an ensemble
    assert "which this command reads" in refused("predict", own, "-m", both, "-o", f"{trained.model}/recipe.yaml")


@pytest.mark.parametrize("model", ["", " ", ",", "small,", ",small", "small,,base"])
def test_a_reader_without_a_name_is_refused(trained: Any, tmp_path: Path, model: str) -> None:
    said = refused("predict", trained.data, "-m", model, "-o", tmp_path / "x.json")
    assert "empty" in said or "missing before or after a comma" in said


def test_no_reader_is_twice_in_an_ensemble(trained: Any, tmp_path: Path) -> None:
    said = refused("predict", trained.data, "-m", "small,base, small", "-o", tmp_path / "x.json")
    assert "small is there twice" in said


def test_there_may_be_blanks_between_the_names_of_readers(trained: Any) -> None:
    done = [
        RUN.invoke(app, ["evaluate", trained.data, "--json", "-m", names.format(trained.model)])
        for names in ("{0},small", " {0}, small ")
    ]
    assert done[0].exit_code == 0, done[0].output
    assert done[0].stdout == done[1].stdout


def test_options_without_effect_are_refused(trained: Any, tmp_path: Path) -> None:
    said = refused("evaluate", trained.data, "p.json", "--min-confidence", "0.9", status=2)
    assert "--min-confidence needs --model" in said
    for option in ("--id-column", "--question-column", "--passage-column"):
        words = ("predict", trained.data, "-m", trained.model, "-o", tmp_path / "x.json", option, "q")
        assert "SQuAD data have no columns" in refused(*words, status=2)
    assert not (tmp_path / "x.json").exists()


def test_no_error_repeats_the_file(trained: Any, tmp_path: Path) -> None:
    tree = {"data": [json.loads(Path(trained.data).read_text())] * 20}
    (tmp_path / "data.json").write_text(json.dumps(tree))
    assert "the prediction of 'data' is a list, not a text" in refused("evaluate", trained.data, tmp_path / "data.json")
    data = tmp_path / "data.json"
    refused("predict", data, "--format", "csv", "-m", trained.model, "-o", tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()


def test_a_file_without_questions_is_named(trained: Any, nothing: Path) -> None:
    assert f"{nothing}: it holds no question" in refused("evaluate", nothing, "-m", trained.model)
    assert f"{nothing}: it holds no question" in refused("calibrate", trained.model, "--data", nothing)


def test_a_shipped_reader_is_not_calibrated_in_place(trained: Any) -> None:
    assert "small: a shipped reader stays as it is; copy " in refused("calibrate", "small", "--data", trained.data)


def test_an_average_leaves_other_folders_alone(trained: Any, tmp_path: Path) -> None:
    (tmp_path / "out.new").mkdir()
    (tmp_path / "out.new" / "precious").write_text("text")
    assert "out.new: there already" in refused("export", "average", *[trained.model] * 2, "-o", tmp_path / "out")
    assert (tmp_path / "out.new" / "precious").read_text() == "text"


def test_what_commands_a_terminal_is_not_printed(trained: Any, tmp_path: Path) -> None:
    text = "\x1b[2J\x9b31m\aNoor lived in Kyoto.\x1b]0;title\x07"
    (tmp_path / "passage.txt").write_bytes(text.encode())
    words = ["ask", "-m", trained.model, "-p", str(tmp_path / "passage.txt"), "\x1b[31mWho?", "--top", "5"]
    shown = RUN.invoke(app, words).stdout
    assert "Noor" in shown
    assert not {"\x1b", "\x9b", "\a"} & set(shown)
    exact = json.loads(RUN.invoke(app, [*words, "--json"]).stdout)
    assert exact["question"] == "\x1b[31mWho?"
    assert all(text[answer["start"] : answer["end"]] == answer["text"] for answer in exact["answers"])


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_closed_output_is_no_traceback(trained: Any, json_too: list[str]) -> None:
    words = [sys.executable, "-m", "rmreader", "evaluate", trained.data, "-m", trained.model, *json_too]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], stderr=subprocess.PIPE, env=os.environ, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
