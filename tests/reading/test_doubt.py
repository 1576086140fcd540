"""Three words for doubt, by one rule for every way out."""

from __future__ import annotations

import pytest

from rmreader.reading.answers import Answer, Answers
from rmreader.reading.doubt import doubt_of
from rmreader.reading.reader import Reader

PASSAGE = "The letter was written by Ada Lovelace in 1843. Charles Babbage answered it in London."


@pytest.mark.parametrize(
    ("confidence", "no_answer", "word"),
    [
        (0.95, 0.01, "sure"),
        (0.95, None, "sure"),
        (0.76, 0.05, "sure"),
        (0.95, 0.07, "likely"),
        (0.75, 0.01, "likely"),
        (0.95, 0.21, "perhaps"),
        (0.73, 0.01, "perhaps"),
        (0.1, None, "perhaps"),
    ],
)
def test_the_bands(confidence: float, no_answer: float | None, word: str) -> None:
    assert doubt_of(confidence, no_answer) == word


def answer(text: str, confidence: float) -> Answer:
    return Answer(text, 0, len(text), 0.0, confidence, text, 0)


def test_every_answer_is_spelled_with_its_doubt() -> None:
    tree = Answers((answer("Ada", 0.9), answer("Charles", 0.05)), no_answer=0.01).to_dict()
    assert [one["doubt"] for one in tree["answers"]] == ["sure", "perhaps"]
    assert Answers.from_dict(tree).to_dict() == tree


def test_below_likely_the_runner_up_is_given() -> None:
    doubtful = Answers((answer("Ada", 0.5), answer("Charles", 0.3)), no_answer=0.1)
    given = doubtful.select(1)
    assert given.runner_up is not None
    assert given.runner_up.text == "Charles"
    assert given.to_dict()["runner_up"]["doubt"] == "perhaps"
    assert Answers.from_dict(given.to_dict()).runner_up == given.runner_up
    sure = Answers((answer("Ada", 0.95), answer("Charles", 0.3)), no_answer=0.01).select(1)
    assert sure.runner_up is None
    assert "runner_up" not in sure.to_dict()


def test_a_refusal_less_than_half_sure_is_a_perhaps() -> None:
    half = Answers((answer("Ada", 0.5),), no_answer=0.47, absent=True).select(1)
    assert half.best is None
    assert half.perhaps
    assert half.refusal() == "perhaps: Ada  (47% that it is not in this passage)"
    firm = Answers((answer("Ada", 0.5),), no_answer=0.6, absent=True).select(1)
    assert not firm.perhaps
    assert firm.refusal().startswith("not in this passage")


def test_a_reader_gives_a_runner_up_where_it_doubts() -> None:
    reader = Reader.load("small")
    sure = reader.ask("Who wrote the letter?", PASSAGE)
    assert (sure.best and sure.best.text, sure.runner_up) == ("Ada Lovelace", None)
    words = {sure.doubt(sure[0])}
    for question in ("Who was there?", "What is the man's name?", "Which year or place?"):
        answers = reader.ask(question, PASSAGE, always=True)
        words.add(answers.doubt(answers[0]))
        pair = reader.ask(question, PASSAGE, always=True, top=2)
        if answers.runner_up is not None:
            assert answers.runner_up == pair[1]
            assert answers.doubt(answers[0]) == "perhaps"
    assert {"sure", "perhaps"} <= words
