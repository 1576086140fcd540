"""The calibration study says of a reader's confidences what asking it says, and draws it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.studies.report import save
from lab.studies.scores import study_calibration
from rmreader.core.errors import UserError
from rmreader.data.squad import read_squad
from rmreader.reading.reader import Reader
from rmreader.scoring.calibration import expected_calibration_error
from rmreader.scoring.squad import exact_match, f1


def test_it_judges_the_confidences_that_ask_gives(
    make_reader: Any, tiny: Any, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, of the extra `lab`, is not installed")
    folder = make_reader(1)
    manifest = folder / "reader.json"
    about = json.loads(manifest.read_text())
    about["temperature"] = 2.5
    manifest.write_text(json.dumps(about))
    report = study_calibration([str(folder)], tiny.dev)
    found = report.data[str(folder)]
    before = found["before"]
    after = found["after"]
    assert after["temperature"] == 2.5
    # A temperature above 1 doubts more.
    assert before["mean_confidence"] > after["mean_confidence"]

    reader = Reader.load(folder)
    sure = []
    right = []
    exact = []
    for paragraph, question in read_squad(tiny.dev).questions():
        (best,) = reader.ask(question.text, paragraph.context)
        references = [reference.text for reference in question.answers]
        sure.append(best.confidence)
        right.append(f1(best.text, references))
        exact.append(exact_match(best.text, references))

    assert found["questions"] == len(sure)
    percent = {
        "f1": 100 * np.mean(right),
        "exact_match": 100 * np.mean(exact),
    }
    for key, expected in percent.items():
        assert found[key] == pytest.approx(expected)
    errors = {
        "mean_confidence": np.mean(sure),
        "expected_calibration_error": expected_calibration_error(sure, right),
        "against_exact_match": expected_calibration_error(sure, exact),
    }
    for key, expected in errors.items():
        assert after[key] == pytest.approx(expected, abs=1e-4)
    assert sum(each["count"] for each in after["bins"]) == len(sure)

    # It is drawn beside the table.
    written = save(report, tmp_path)
    assert {path.name for path in written} == {
        "calibration.md",
        "calibration.json",
        f"reliability-{folder.name}.png",
    }
    assert written[-1].read_bytes().startswith(b"\x89PNG")


def test_readers_whose_folders_have_one_name_are_kept_apart_and_a_runs_folder_will_do(
    make_reader: Any, tiny: Any, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, of the extra `lab`, is not installed")
    folders = [make_reader(1), make_reader(2)]
    assert {folder.name for folder in folders} == {"best"}
    one, two = map(str, folders)
    report = study_calibration([one, two], tiny.dev)
    _, _, *drawn = save(report, tmp_path)
    assert list(report.data) == [one, two]
    assert [row[0] for row in report.rows] == [one, one, two, two]
    assert [path.name for path in drawn] == [
        "reliability-1-best.png",
        "reliability-2-best.png",
    ]
    assert all(path.is_file() for path in drawn)

    # A run's folder is its best reader.
    first_run, second_run = (str(folder.parent) for folder in folders)
    both = f"{one},{second_run}"
    runs = study_calibration([first_run, both], tiny.dev)
    assert runs.data[first_run] == report.data[one]
    assert list(runs.data) == [first_run, both]
    with pytest.raises(UserError, match="given twice"):
        study_calibration([one, first_run], tiny.dev)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [
            {
                "id": "1",
                "question": " ",
                "answers": [{"text": "A", "answer_start": 0}],
            }
        ],
    ],
)
def test_questions_without_answers_or_words_are_no_measure(
    make_reader: Any, tmp_path: Path, rows: list[Any]
) -> None:
    empty = tmp_path / "empty.json"
    paragraph = {"context": "A text.", "qas": rows}
    article = {"title": "t", "paragraphs": [paragraph]}
    empty.write_text(json.dumps({"data": [article]}))
    with pytest.raises(UserError, match=r"empty.json: .* no question"):
        study_calibration([str(make_reader(1))], empty)
