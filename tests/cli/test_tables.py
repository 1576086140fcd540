"""`data check`, `train` and `evaluate` read tables with answers, as `tune` does: CSV, TSV, JSON Lines, Parquet."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiny_run import write_data
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.data.encode import encode_file
from rmreader.data.examples import read_data
from rmreader.data.squad import read_squad

RUN = CliRunner()
GOOD = {"question": "Who wrote it?", "passage": "Ada wrote it.", "answer": "Ada"}
TWICE = {"question": "Who slept?", "passage": "Ada slept. Ada sang.", "answer": "Ada"}
WRONG = {"question": "Who left?", "passage": "Noor left.", "answer": "Zoe"}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows in the format that the ending names."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_check_counts_a_table_and_names_what_is_wrong_or_uncertain(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"rows.{ending}", [GOOD, TWICE, WRONG])
    done = RUN.invoke(app, ["data", "check", str(path), "--json"])
    assert done.exit_code == 1  # there is a bad row
    report = json.loads(done.stdout)
    counts = [report[name] for name in ("paragraphs", "questions", "impossible", "answers", "on_boundaries")]
    assert counts == [2, 2, 0, 2, 2]
    what = "line" if ending == "jsonl" else "row"
    (problem,), (ambiguous,) = report["problems"], report["ambiguous"]
    assert (problem["row"], problem["what"]) == (f"{what} 3", "the answer 'Zoe' is not in its passage")
    assert (ambiguous["row"], ambiguous["file"]) == (f"{what} 2", str(path))
    said = RUN.invoke(app, ["data", "check", str(path)]).stdout
    assert f"ambiguous: {path}: {what} 2: 'Ada' is in its passage several times" in said
    assert f"{path}: {what} 3: the answer 'Zoe' is not in its passage" in said
    write(path, [GOOD, TWICE])
    assert RUN.invoke(app, ["data", "check", str(path)]).exit_code == 0


def test_a_table_without_answers_or_of_bad_rows_alone_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", [{"question": "Who?", "passage": "Ada."}])
    done = RUN.invoke(app, ["data", "check", str(path)])
    assert done.exit_code == 1
    assert "no column 'answer' or 'answers'; its columns are 'question', 'passage'" in done.stderr
    write(path, [WRONG])
    done = RUN.invoke(app, ["train", "tiny", "--train", str(path), "--out", str(tmp_path / "run")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "has no question to learn from" in done.stderr
    assert "row 1: the answer 'Zoe' is not in its passage" in done.stderr


def test_a_row_may_say_that_its_passage_does_not_answer_it(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "context": "Ada wrote.", "answers": {"text": ["Ada"], "answer_start": [0]}},
        {"question": "When?", "context": "Ada wrote.", "answers": {"text": [], "answer_start": []}},
        {"question": "Where?", "context": "Ada wrote.", "answer": "", "is_impossible": True},
        {"question": "Why?", "context": "Ada wrote.", "answer": "Ada", "is_impossible": True},
    ]
    found = read_data(write(tmp_path / "rows.jsonl", rows))
    assert [question.impossible for _, question in found.questions()] == [False, True, True]
    assert [problem.what for problem in found.problems] == ["'is_impossible' is true, yet there is an answer"]


def test_a_table_is_encoded_as_the_same_squad_file_is(tmp_path: Path) -> None:
    write_data(tmp_path)
    rows = [
        {
            "id": question.id,
            "question": question.text,
            "passage": paragraph.context,
            "answer": question.answers[0].text,
            "answer_start": question.answers[0].start,
            "title": article.title,
        }
        for article in read_squad(tmp_path / "train.json").articles
        for paragraph in article.paragraphs
        for question in paragraph.questions
    ]
    of_squad = encode_file(tmp_path / "train.json", tmp_path)
    of_table = encode_file(write(tmp_path / "train.csv", rows), tmp_path)
    assert of_table.ids == of_squad.ids
    assert of_table.vocabulary == of_squad.vocabulary
    for name, array in of_squad.arrays.items():
        np.testing.assert_array_equal(of_table.arrays[name], array, err_msg=name)
    # another kind of file with the same content is not taken for it
    (tmp_path / "train.tsv").write_bytes((tmp_path / "train.csv").read_bytes())
    done = RUN.invoke(app, ["data", "check", str(tmp_path / "train.tsv")])
    assert done.exit_code == 1
    assert "no column 'question'" in done.stderr


def test_a_reader_is_trained_and_scored_on_tables_and_uncertain_rows_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    generator = random.Random(1)
    names = ["Ada", "Grace", "Alan", "Emmy", "Noor", "Kofi"]
    rows = [
        {"question": "Who made it?", "passage": f"In room {k}, {name} made it.", "answer": name}
        for k in range(24)
        for name in [generator.choice(names)]
    ]
    train, dev = write(tmp_path / "train.csv", [*rows[:18], TWICE, WRONG]), write(tmp_path / "dev.jsonl", rows[18:])
    words = ["training.epochs=1", "training.warmup=0", "training.holdout=0.2", "--device", "cpu", "--json"]
    files = ["--train", str(train), "--dev", str(dev), "--out", str(tmp_path / "run")]
    for again in range(2):  # the second time out of the cache
        folder = [*files[:-1], str(tmp_path / f"run-{again}")]
        done = RUN.invoke(app, ["train", "tiny", *words, *folder])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["dev"]["total"] == 6
        assert f"skipped: {train}: row 20: the answer 'Zoe' is not in its passage" in done.stderr
        assert f"ambiguous: {train}: row 19: 'Ada' is in its passage several times" in done.stderr
    best = json.loads(done.stdout)["best"]
    scored = RUN.invoke(app, ["evaluate", str(dev), "--model", best, "--json"])
    assert scored.exit_code == 0, scored.output
    assert json.loads(scored.stdout)["total"] == 6
