"""The temperature: fitted to what is right, kept with the reader, and used by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rmreader.config import Inputs, NetworkConfig, Recipe, Training
from rmreader.errors import UserError
from rmreader.learning.readerfolder import make_network, write_reader
from rmreader.reading.calibrate import calibrate, fit, held_out, questions_of
from rmreader.reading.reader import Reader
from rmreader.text.lexicon import Lexicon

PASSAGE = "Denver won."


def known(reader: Reader, count: int, right: float) -> list[tuple[str, str, list[str]]]:
    """Questions of which the reader gets that share right, because its own answers are the references."""
    rows = []
    for number in range(count):
        question = f"Which team was number {number}?"
        own = reader.ask(question, PASSAGE)[0].text
        rows.append((question, PASSAGE, [own if number < right * count else "none of these"]))
    return rows


@pytest.mark.parametrize("right", [0.25, 0.35])  # a random reader is nearly indifferent between its six spans
def test_the_mean_confidence_becomes_the_share_that_is_right(reader: Reader, right: float) -> None:
    found = fit(reader, known(reader, 40, right))
    assert found.questions == 40
    assert found.error_after < 0.05 < found.error_before
    spans = [scores for _, scores in reader.span_scores((q, p) for q, p, _ in known(reader, 40, right))]
    confidences = [1 / np.exp((s - s.max()) / found.temperature).sum() for s in spans]
    assert np.mean(confidences) == pytest.approx(right, abs=0.05)


def test_it_is_kept_in_the_folder_and_used(folder: Path, reader: Reader, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    found = calibrate(copy, known(reader, 20, 0.5))
    about = json.loads((copy / "reader.json").read_text())
    assert about["temperature"] == found.temperature != 1.0
    assert about["calibration"]["questions"] == 20
    assert about["provenance"] == {"made": "by a test"}
    again = Reader.load(copy)
    assert again.temperature == found.temperature
    assert again.ask("Who?", PASSAGE)[0].confidence != reader.ask("Who?", PASSAGE)[0].confidence
    assert [path.name for path in copy.iterdir() if path.name.startswith(".")] == []


def test_nothing_to_fit_on_is_said(reader: Reader) -> None:
    with pytest.raises(UserError, match="needs questions with answers"):
        fit(reader, [("", "", ["x"])])


def test_held_out_articles_are_those_the_recipe_held_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    articles = []
    for number in range(10):
        qas = [{"id": f"q{number}", "question": f"Who is {number}?", "answers": [{"text": "Ada", "answer_start": 0}]}]
        articles.append({"title": f"t{number}", "paragraphs": [{"context": f"Ada is {number}.", "qas": qas}]})
    train = tmp_path / "train.json"
    train.write_text(json.dumps({"version": "1.1", "data": articles}))
    lexicon = Lexicon.load(folder)
    inputs = Inputs(vectors=str(folder / "vectors.safetensors"), character_size=3)
    for holdout, count in ((0.3, 3), (0.0, 0)):
        recipe = Recipe(inputs=inputs, network=NetworkConfig(hidden=4), training=Training(holdout=holdout))
        made = tmp_path / f"reader{count}"
        write_reader(made, make_network(recipe, lexicon).state_dict(), lexicon, recipe, {}, {})
        if count:
            held = list(held_out(made, train))
            assert len(held) == count
            assert {question for question, _, _ in held} < {f"Who is {k}?" for k in range(10)}
        else:
            with pytest.raises(UserError, match="held out no articles"):
                list(held_out(made, train))
    assert len(list(questions_of(train))) == 10
