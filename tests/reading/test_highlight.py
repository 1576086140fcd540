"""Highlights: the exact words of many texts, and which of the texts answer."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rmreader
from rmreader import Reader, UserError
from rmreader.reading.highlight import Highlights

TEXTS = [
    "It rained in Tarn all day, and the weir at Tarrow overflowed.",
    "The letter was written by Ada Lovelace in 1843, and sent to Turin.",
    "",
    "Barges of coal went down the canal for a century.",
]
EXAMPLES = int(os.environ.get("RMREADER_EXAMPLES", "60"))


@pytest.fixture(scope="module")
def small() -> Reader:
    return Reader.load("small")


def test_the_text_that_answers_is_marked_and_first(small: Reader) -> None:
    found = rmreader.highlight("Who wrote the letter?", TEXTS, reader=small)
    assert [one.index for one in found] == [0, 1, 2, 3]
    best = found.ranked()[0]
    assert (best.index, best.answers[0].text) == (1, "Ada Lovelace")
    assert best.text[best.answers[0].start : best.answers[0].end] == "Ada Lovelace"
    assert found.no_answer is not None
    assert found.no_answer < 0.5
    assert all(0 <= one.relevance <= 1 for one in found)
    assert found[2].relevance == 0  # there is nothing to read
    tree = json.loads(json.dumps(found.to_dict()))
    assert tree["items"][1]["answers"][0]["start"] == best.answers[0].start


def test_none_of_these(small: Reader) -> None:
    question = "Who paid for the stamp collection of the museum?"
    found = rmreader.highlight(question, TEXTS, reader=small)
    assert [list(one.answers) for one in found] == [[]] * 4
    assert found.no_answer is not None
    assert found.no_answer > 0.5
    guessed = rmreader.highlight(question, TEXTS, reader=small, always=True)
    assert len(guessed[1].answers) == 1


def test_one_text_has_the_chance_that_its_reader_gives(small: Reader) -> None:
    alone = small.ask("Who wrote the letter?", TEXTS[1]).no_answer
    assert rmreader.highlight("Who wrote the letter?", TEXTS[1:2], reader=small).no_answer == (pytest.approx(alone))
    assert Highlights().no_answer == 1.0


def test_what_makes_no_sense_is_one_sentence(small: Reader) -> None:
    with pytest.raises(UserError, match="not one text"):
        rmreader.highlight("Who?", "Ada wrote it.", reader=small)
    with pytest.raises(UserError, match="at least 1"):
        rmreader.highlight("Who?", ["Ada wrote it."], reader=small, top=0)


WORDS = st.sampled_from(["Ada", "wrote", "the", "letter", "in", "1843", ",", ".", "é", "😀", "\r\n"])
ANYTHING = st.lists(WORDS | st.text(max_size=6), max_size=12).map(" ".join)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(ANYTHING, max_size=4))
def test_every_highlight_is_exact(small: Reader, texts: list[str]) -> None:
    found = rmreader.highlight("Who wrote it?", texts, reader=small, top=3, always=True)
    assert [one.text for one in found] == texts
    for one in found:
        for answer in one.answers:
            assert one.text[answer.start : answer.end] == answer.text != ""
