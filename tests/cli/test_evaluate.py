"""``rmreader evaluate DATA PREDS``: the official score through the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import exact_match, f1

RUN = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two questions, one of them attacked, and predictions for all but the attack."""
    rows = [
        {"id": id, "question": "Who?", "answers": [{"text": "red fox", "answer_start": 4}]} for id in ("a", "b", "b-x")
    ]
    tree = {"data": [{"title": "t", "paragraphs": [{"context": "The red fox.", "qas": rows}]}]}
    (tmp_path / "data.json").write_text(json.dumps(tree))
    (tmp_path / "preds.json").write_text(json.dumps({"a": "The red fox", "b": "fox"}))
    return str(tmp_path / "data.json"), str(tmp_path / "preds.json")


def test_the_score_is_json_on_request(files: tuple[str, str]) -> None:
    done = RUN.invoke(app, ["evaluate", *files, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(500 / 9),
        "total": 3,
        "missing": 1,
        "skipped": 0,
    }


def test_the_table_holds_the_same_figures(files: tuple[str, str]) -> None:
    done = RUN.invoke(app, ["evaluate", *files])
    header, row = (line.split() for line in done.stdout.splitlines())
    assert header == ["exact", "match", "F1", "questions", "missing"]
    assert row == ["score", "33.333", "55.556", "3", "1"]


def test_the_adversarial_score_stands_beside_the_clean_one(files: tuple[str, str]) -> None:
    done = json.loads(RUN.invoke(app, ["evaluate", *files, "--adversarial", "--json"]).stdout)
    assert (done["exact_match"], done["total"], done["attacked"], done["missing"]) == (50.0, 2, 1, 1)
    assert (done["clean"]["exact_match"], done["clean"]["total"], done["clean"]["missing"]) == (50.0, 2, 0)
    table = RUN.invoke(app, ["evaluate", *files, "--adversarial"]).stdout
    assert "attacked" in table
    assert "unattacked" in table


def test_skipped_rows_are_said_beside_the_score(files: tuple[str, str]) -> None:
    tree = json.loads(Path(files[0]).read_text())
    tree["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 77
    Path(files[0]).write_text(json.dumps(tree))
    done = RUN.invoke(app, ["evaluate", *files, "--json"])
    assert (json.loads(done.stdout)["skipped"], json.loads(done.stdout)["total"]) == (1, 2)
    assert "skipped" in done.stderr


@pytest.mark.parametrize("content", [b"", b"[]", b'"x"', b'{"a": 3}', b'{"a": null}', b"\xff", b"\x1f\x8b\x08\x00junk"])
def test_predictions_that_are_none_are_one_sentence(files: tuple[str, str], content: bytes) -> None:
    Path(files[1]).write_bytes(content)
    done = RUN.invoke(app, ["evaluate", *files])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {files[1]}: ")
    assert done.stderr.count("\n") == 1


def test_a_folder_in_place_of_predictions_is_one_sentence(files: tuple[str, str], tmp_path: Path) -> None:
    done = RUN.invoke(app, ["evaluate", files[0], str(tmp_path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: {tmp_path}: Is a directory; check the path.\n"


def test_either_predictions_or_a_model(files: tuple[str, str]) -> None:
    assert RUN.invoke(app, ["evaluate", files[0]]).exit_code == 2
    assert RUN.invoke(app, ["evaluate", *files, "--model", "small"]).exit_code == 2


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "em", "overlap", "missing"),
    [("bert-ensemble", 86.206, 92.196, 0), ("logistic-regression", 40.142, 50.982, 13)],
)
@pytest.mark.parametrize("packed", [True, False])
def test_the_published_predictions_score_as_published(
    real_data: Path, tmp_path: Path, name: str, em: float, overlap: float, missing: int, packed: bool
) -> None:
    predictions = real_data / "predictions" / f"{name}.json.gz"
    if not packed:
        predictions = tmp_path / "predictions.json"
        predictions.write_bytes(gzip.decompress((real_data / "predictions" / f"{name}.json.gz").read_bytes()))
    dev = real_data / "squad-v1.1" / "dev-v1.1.json.gz"
    done = RUN.invoke(app, ["evaluate", str(dev), str(predictions), "--json"])
    result = json.loads(done.stdout)
    assert (round(result["exact_match"], 3), round(result["f1"], 3)) == (em, overlap)
    assert (result["total"], result["missing"]) == (10_570, missing)


def test_what_a_user_gets_is_told_beside_the_score_with_the_decision_off(tmp_path: Path) -> None:
    passage = "The lighthouse was designed by Ingrid Halvorsen. Its lamp was first lit in 1871."
    asked = {
        "Who designed the lighthouse?": "Ingrid Halvorsen",
        "When was its lamp first lit?": "1871",
        "Who paid for the museum in Oslo?": "Ingrid",  # labelled, though the passage does not say
    }
    rows = []
    for number, (question, answer) in enumerate(asked.items()):
        place = {"text": answer, "answer_start": passage.index(answer)}
        rows.append({"id": f"q{number}", "question": question, "answers": [place]})
    tree = {"data": [{"title": "t", "paragraphs": [{"context": passage, "qas": rows}]}]}
    path = tmp_path / "data.json"
    path.write_text(json.dumps(tree))

    reader = Reader.load("small")
    exact = 0.0
    overlap = 0.0
    answered = 0
    for question, answer in asked.items():
        best = reader.ask(question, passage).best
        if best is not None:
            answered += 1
            exact += exact_match(best.text, [answer])
            overlap += f1(best.text, [answer])
    assert answered == 2

    done = RUN.invoke(app, ["evaluate", str(path), "--model", "small", "--json"])
    told = json.loads(done.stdout)
    assert told["decided"] == pytest.approx(
        {"exact_match": 100 * exact / 3, "f1": 100 * overlap / 3, "answered": 200 / 3}
    )
    assert told["f1"] >= told["decided"]["f1"]
    table = RUN.invoke(app, ["evaluate", str(path), "--model", "small"]).stdout
    assert "with the decision on: EM 66.67, F1 66.67, 66.7 % of the questions answered" in table


def test_attacked_questions_are_scored_without_a_decision(tmp_path: Path) -> None:
    rows = [
        {"id": name, "question": "Who wrote it?", "answers": [{"text": "Ada", "answer_start": 0}]}
        for name in ("a", "a-high")
    ]
    tree = {"data": [{"title": "t", "paragraphs": [{"context": "Ada wrote it.", "qas": rows}]}]}
    path = tmp_path / "attacked.json"
    path.write_text(json.dumps(tree))
    command = ["evaluate", str(path), "--model", "small", "--adversarial", "--json"]
    assert "decided" not in json.loads(RUN.invoke(app, command).stdout)
