"""``rmreader predict`` on files of every kind, ``chat`` and ``export``, with a reader that was really trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app

RUN = CliRunner()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))


def test_predict_reads_tables_and_writes_json_lines_that_can_be_resumed(trained: Any, tmp_path: Path) -> None:
    data, out = tmp_path / "x.csv", tmp_path / "out.jsonl"
    last = "Where?,In Lima. Ada went home one year later and Charles left again."
    data.write_text(f'q,text\nWho?,"Ada made it, in Oslo."\n,empty\n{last}\n')
    words = ["predict", str(data), "-m", trained.model, "-o", str(out), "--question-column", "q"]
    done = RUN.invoke(app, [*words, "--passage-column", "text", "--top", "2"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "row 2: 'q' is empty" in done.stderr
    assert "2 answers" in done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["id"], len(line["answers"])) for line in lines] == [("1", 2), ("3", 2)]
    again = RUN.invoke(app, [*words, "--passage-column", "text"])
    assert (again.exit_code, "add --resume" in again.stderr) == (1, True)
    other = RUN.invoke(app, [*words, "--passage-column", "text", "--resume"])
    assert (other.exit_code, "with other options" in other.stderr) == (1, True)
    resumed = RUN.invoke(app, [*words, "--passage-column", "text", "--top", "2", "--resume"])
    assert (resumed.exit_code, "0 answers" in resumed.stderr, "2 from before" in resumed.stderr) == (0, True, True)
    wrong = RUN.invoke(app, [*words, "--passage-column", "nope", "--top", "2", "--resume"])
    assert (wrong.exit_code, "no column 'nope'" in wrong.stderr) == (1, True)


def test_chat_answers_what_is_typed_and_ends_with_the_input(trained: Any, tmp_path: Path) -> None:
    passage = tmp_path / "passage.txt"
    passage.write_text("Ada made a red clock in Oslo.")
    done = RUN.invoke(
        app, ["chat", str(passage), "-m", trained.model, "--top", "2"], input="Who made a clock?\n:help\n"
    )
    assert done.exit_code == 0, done.output
    assert "confidence" in done.stdout
    assert ":passage" in done.stdout
    missing = RUN.invoke(app, ["chat", str(tmp_path / "absent"), "-m", trained.model])
    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)


def test_export(trained: Any, tmp_path: Path) -> None:
    done = RUN.invoke(app, ["export", "onnx", trained.model, "-o", str(tmp_path / "reader.onnx")])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "export onnx was removed" in done.stderr
    done = RUN.invoke(app, ["export", "small", trained.model, "-o", str(tmp_path / "small"), "--weights", "float16"])
    assert done.exit_code == 0, done.output
    found = RUN.invoke(app, ["evaluate", trained.data, "-m", str(tmp_path / "small"), "--json"])
    exact = RUN.invoke(app, ["evaluate", trained.data, "-m", trained.model, "--json"])
    assert json.loads(found.stdout)["f1"] == pytest.approx(json.loads(exact.stdout)["f1"])
    unmeasured = RUN.invoke(
        app, ["export", "small", trained.model, "-o", str(tmp_path / "int8"), "--precision", "int8"]
    )
    assert (unmeasured.exit_code, "need --data" in unmeasured.stderr) == (1, True)


def test_calibrate(trained: Any, tmp_path: Path) -> None:
    copy = shutil.copytree(trained.model, tmp_path / "copy")
    done = RUN.invoke(app, ["calibrate", str(copy), "--data", trained.data, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert json.loads((copy / "reader.json").read_text())["temperature"] == found["temperature"]
    assert RUN.invoke(app, ["calibrate", str(copy)]).exit_code == 2
    said = RUN.invoke(app, ["calibrate", str(copy), "--data", trained.data])
    assert "expected calibration error" in said.stdout
    assert f"{copy}: 8 questions to fit chances on are few; 100 or more are better." in said.stderr
