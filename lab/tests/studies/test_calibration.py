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
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"temperature": 2.5}))
    report = study_calibration([str(folder)], tiny.dev)
    found = report.data[str(folder)]

    reader, sure, right, exact = Reader.load(folder), [], [], []
    for paragraph, question in read_squad(tiny.dev).questions():
        (best,) = reader.ask(question.text, paragraph.context)
        sure.append(best.confidence)
        references = [reference.text for reference in question.answers]
        right.append(f1(best.text, references))
        exact.append(exact_match(best.text, references))
    assert found["after"]["temperature"] == 2.5
    assert found["questions"] == len(sure)
    assert found["f1"] == pytest.approx(100 * np.mean(right))
    assert found["exact_match"] == pytest.approx(100 * np.mean(exact))
    assert found["after"]["mean_confidence"] == pytest.approx(np.mean(sure), abs=1e-5)
    assert found["after"]["expected_calibration_error"] == pytest.approx(
        expected_calibration_error(sure, right), abs=1e-4
    )
    assert found["after"]["against_exact_match"] == pytest.approx(
        expected_calibration_error(sure, exact), abs=1e-4
    )
    assert (
        found["before"]["mean_confidence"] > found["after"]["mean_confidence"]
    )  # a temperature above 1 doubts more
    assert sum(one["count"] for one in found["after"]["bins"]) == len(sure)
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
    one, two = make_reader(1), make_reader(2)
    assert one.name == two.name == "best"
    report = study_calibration([str(one), str(two)], tiny.dev)
    drawn = save(report, tmp_path)[2:]
    assert list(report.data) == [str(one), str(two)]
    assert [row[0] for row in report.rows] == [str(one)] * 2 + [str(two)] * 2
    assert [path.name for path in drawn] == ["reliability-1-best.png", "reliability-2-best.png"]
    assert all(path.is_file() for path in drawn)
    both = f"{one},{two.parent}"
    runs = study_calibration([str(one.parent), both], tiny.dev)
    assert runs.data[str(one.parent)] == report.data[str(one)]
    assert list(runs.data) == [str(one.parent), both]
    with pytest.raises(UserError, match="given twice"):
        study_calibration([str(one), str(one.parent)], tiny.dev)


@pytest.mark.parametrize(
    "rows", [[], [{"id": "1", "question": " ", "answers": [{"text": "A", "answer_start": 0}]}]]
)
def test_questions_without_answers_or_words_are_no_measure(
    make_reader: Any, tmp_path: Path, rows: list[Any]
) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(
        json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "A text.", "qas": rows}]}]})
    )
    with pytest.raises(UserError, match=r"empty.json: .* no question"):
        study_calibration([str(make_reader(1))], empty)
