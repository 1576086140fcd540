"""The sentence around an answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.text.sentences import sentence_around

TEXT = (
    "Dr. Smith met J. R. Tolkien in St. Louis. They spoke about the U.S. economy, i.e. money! Did it end?\n"
    "“No.” It cost 3.5 million. 1990 was the year"
)


def quoted(text: str, start: int, end: int) -> str:
    return text[slice(*sentence_around(text, start, end))]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("Tolkien", "Dr. Smith met J. R. Tolkien in St. Louis."),
        ("Louis", "Dr. Smith met J. R. Tolkien in St. Louis."),
        ("economy", "They spoke about the U.S. economy, i.e. money!"),
        ("U.S.", "They spoke about the U.S. economy, i.e. money!"),
        ("end", "Did it end?"),
        ("3.5", "It cost 3.5 million."),
        ("1990", "1990 was the year"),
        ("year", "1990 was the year"),
        ("money! Did", "They spoke about the U.S. economy, i.e. money! Did it end?"),
    ],
)
def test_it_is_the_one_a_person_would_quote(answer: str, sentence: str) -> None:
    start = TEXT.index(answer)
    assert quoted(TEXT, start, start + len(answer)) == sentence


def test_a_letter_before_a_line_that_begins_with_a_number_is_no_initial() -> None:
    text = "The furniture is listed in Schedule A.\n1.2 One parking space is included. It was J. Smith's."
    born = "Tesla was born on 10 July [O.S. 28 June] 1856."
    assert quoted(born, born.index("1856"), born.index("1856") + 4) == born
    assert quoted(text, text.index("One"), text.index("One") + 3) == "1.2 One parking space is included."
    assert quoted(text, text.index("Smith"), text.index("Smith") + 5) == "It was J. Smith's."


def test_lines_of_a_text_that_was_broken_into_them_are_one_sentence() -> None:
    text = (
        "It was designed by\nthe engineer Ada\nLovelace, and\r\nwas lit in 1871. It moved.\n\nlater\nName: Tom\nAge: 7"
    )
    for answer, sentence in [
        ("engineer", "It was designed by\nthe engineer Ada"),
        ("1871", "Lovelace, and\r\nwas lit in 1871."),
        ("Ada\nLovelace", "It was designed by\nthe engineer Ada\nLovelace, and\r\nwas lit in 1871."),
        ("later", "later"),
        ("Tom", "Name: Tom"),
    ]:
        start = text.index(answer)
        assert quoted(text, start, start + len(answer)) == sentence


@given(st.text(max_size=80) | st.text("aB .!?\n", max_size=80), st.data())
@settings(max_examples=200, deadline=None)
def test_it_always_holds_the_answer(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    if text[start:end].strip() == text[start:end] != "":
        assert text[start:end] in quoted(text, start, end)
        assert quoted(text, start, end) in text


def test_a_text_without_an_end_is_cut_at_a_space_and_fast() -> None:
    text = "word " * 100_000
    found = quoted(text, 250_000, 250_004)
    assert 1000 < len(found) < 2100
    assert set(found.split()) == {"word"}
    assert len(quoted("x" * 100_000, 50_000, 50_001)) <= 2001
