"""The temperature: fitted to what is right, kept with the reader, and used by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs, NetworkConfig, Recipe, Training
from rmreader.reading.calibrate import calibrate, fit, held_out, questions_of
from rmreader.reading.engine.engines import Logits
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.reading.spans import best_spans, overlaps, span_scores
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize
from rmreader.training.reader_folder import make_network, write_reader

PASSAGE = "Denver won."


def known(reader: Reader, count: int, right: float) -> list[QuestionRow]:
    """Questions of which the reader gets that share right, because its own answers are the references."""
    rows = []
    for number in range(count):
        question = f"Which team was number {number}?"
        own = reader.ask(question, PASSAGE)[0].text
        rows.append(QuestionRow(str(number), question, PASSAGE, (own if number < right * count else "none of these",)))
    return rows


def test_the_temperature_that_made_the_answers_is_found_again(reader: Reader) -> None:
    random, true = np.random.default_rng(5), 2.0
    passage = " ".join("bcdefghijklm")
    logits, known = [], []
    for _ in range(1500):
        logits.append(Logits(*random.normal(0, 3, (2, 12))))
        grid = span_scores(logits[-1].start, logits[-1].end, 3)
        real = np.isfinite(grid)
        p = np.exp(grid[real] / true)
        drawn = random.choice(np.flatnonzero(real.ravel()), p=p / p.sum())
        first, more = divmod(int(drawn), grid.shape[1])
        words = passage.split()
        known.append(QuestionRow("", "?", passage, (" ".join(words[first : first + more + 1]),)))

    class Sampled:
        def read_many(self, pairs: Any, batch_size: int) -> Any:
            return (one for one, _ in zip(logits, pairs, strict=True))

    found = fit(Reader(reader.folder, Sampled(), max_length=3), known)  # type: ignore[arg-type]
    assert found.temperature == pytest.approx(true, rel=0.1)
    assert found.error_after < 0.03 < found.error_before


def test_a_confidence_is_the_overlap_to_expect_over_all_spans(reader: Reader) -> None:
    question, passage = "Which team?", "Denver Broncos won the game."
    (asked,) = reader.read([QuestionRow("", question, passage)])
    assert asked.spans is not None
    assert asked.confidence is not None
    words = tokenize(passage).words
    (start,), (end,), _ = best_spans(asked.spans, 1)
    real = np.isfinite(asked.spans)
    scores, shares = asked.spans[real], overlaps(words, asked.spans.shape, start, end)[real]
    assert shares.max() == 1.0  # of the answer with itself
    assert len(scores) == len(shares) == 6 * 7 // 2
    answer = reader.ask(question, passage)[0]
    for temperature in (0.5, reader.temperature, 3.0):
        p = np.exp((scores - scores.max()) / temperature)
        assert asked.confidence(temperature) == pytest.approx(float(p @ shares / p.sum()), rel=1e-9)
    assert answer.confidence == asked.confidence(reader.temperature)


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


def test_any_of_the_references_makes_an_answer_right(reader: Reader, tmp_path: Path) -> None:
    rows = known(reader, 20, 0.5)
    several = [
        QuestionRow(row.id, row.question, row.passage, ("something else", *row.references, "other")) for row in rows
    ]
    assert fit(reader, several) == fit(reader, rows)
    answers = [{"text": text, "answer_start": PASSAGE.index(text)} for text in ("Denver", "won", "Denver won")]
    tree = {"data": [{"title": "t", "paragraphs": [{"context": PASSAGE, "qas": [
        {"id": "a", "question": "Who?", "answers": answers},
        {"id": "b", "question": "Why?", "answers": [], "is_impossible": True},
    ]}]}]}  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps(tree))
    assert [row.references for row in questions_of(tmp_path / "x.json")] == [("Denver", "won", "Denver won")]


def test_nothing_to_fit_on_is_said(reader: Reader) -> None:
    with pytest.raises(UserError, match="needs questions with answers"):
        fit(reader, [QuestionRow("", "", "", ("x",))])


def test_held_out_articles_are_those_the_recipe_held_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    articles = []
    answers = [{"text": "Ada", "answer_start": 0}, {"text": "Ada is", "answer_start": 0}]
    for number in range(10):
        qas = [
            {"id": f"q{number}", "question": f"Who is {number}?", "answers": answers},
            {"id": f"n{number}", "question": "Who is none?", "answers": [], "is_impossible": True},
        ]
        articles.append({"title": f"t{number}", "paragraphs": [{"context": f"Ada is {number}.", "qas": qas}]})
    train = tmp_path / "train.json"
    train.write_text(json.dumps({"version": "1.1", "data": articles}))
    lexicon = Lexicon.load(folder)
    inputs = Inputs(vectors=str(folder / "vectors.safetensors"), character_size=3)
    for holdout, count in ((0.3, 3), (0.0, 0)):
        recipe = Recipe(
            inputs=inputs, network=NetworkConfig(hidden=4), training=Training(holdout=holdout, schedule="anneal")
        )
        made = tmp_path / f"reader{count}"
        write_reader(made, make_network(recipe, lexicon).state_dict(), lexicon, recipe, {}, {})
        if count:
            held = list(held_out(made, train))
            assert len(held) == count
            assert [row.references for row in held] == [("Ada", "Ada is")] * count
            assert {row.question for row in held} < {f"Who is {k}?" for k in range(10)}
            origin = {"trained_on": "other.json", "trained_on_sha256": "0" * 64}
            write_reader(made, make_network(recipe, lexicon).state_dict(), lexicon, recipe, {}, origin)
            with pytest.raises(UserError, match=r"not the file .* other.json"):
                list(held_out(made, train))
        else:
            with pytest.raises(UserError, match="held out no articles"):
                list(held_out(made, train))
    assert len(list(questions_of(train))) == 10


@pytest.mark.parametrize("answered", [0.8, 0.9, 1.0])
def test_a_share_of_the_questions_that_have_an_answer_is_answered(answered: float) -> None:
    """Of what is said to have an answer, a third looks to the reader as if it had none."""
    reader = Reader.load("small")
    passages = [f"The shop in street {number} opens at {number + 1} o'clock." for number in range(12)]
    rows = []
    for number, passage in enumerate(passages):
        rows.append(QuestionRow(f"yes-{number}", "When does the shop open?", passage, (f"{number + 1} o'clock",)))
        wrongly = ("the shop",) if number % 2 else ()
        rows.append(QuestionRow(f"no-{number}", "Who founded the museum?", passage, wrongly))

    before = fit(reader, rows).decision
    after = fit(reader, rows, answered).decision
    assert before is not None
    assert after is not None
    assert (after.scale, after.shift) == (before.scale, before.shift)
    chances = []
    for asked in reader.read(row for row in rows if row.references):
        assert asked.log_odds is not None
        chances.append(after.chance(asked.log_odds))
    given = np.array(chances)
    assert np.mean(given <= before.threshold) < 0.8
    assert np.mean(given <= after.threshold + 1e-9) >= answered - 1 / len(chances)


def test_chances_of_balanced_questions_are_those_of_as_many_with_as_without() -> None:
    reader = Reader.load("small")
    rows = []
    for number in range(40):
        passage = f"The shop in street {number} opens at {number % 12 + 1} o'clock."
        references = (f"{number % 12 + 1} o'clock",) if number % 4 else ()
        question = "When does the shop open?" if number % 3 else "Who runs it?"
        rows.append(QuestionRow(str(number), question, passage, references))

    plain = fit(reader, rows).decision
    balanced = fit(reader, rows, balanced=True).decision
    assert plain is not None
    assert balanced is not None
    assert balanced.scale == plain.scale
    # Of 40 questions 30 have an answer: odds of 3 to 1 that the plain chances have in them.
    assert balanced.shift == pytest.approx(plain.shift + np.log(3))
