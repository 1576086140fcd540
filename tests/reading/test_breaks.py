"""Breaks: no answer reaches from one field, item, option or message into the next."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.reading.breaks import breaks_of
from rmreader.reading.reader import Reader

FORM = """Applicant:            Rosa M. Delgado
Vehicle registration: KX19 FZT
Make and model:       Renault Zoe
Zone requested:       C2
Fee paid:             £64.00 (card)"""
LISTS = {
    "items": "Bring with you:\n- a tent\n- two lamps\n- warm socks",
    "numbered items": "1. Open the lid.\n2. Fill in water\n3. Press the red button",
    "options": "  -q, --quiet     Give less output\n  -v, --verbose   Give more output\n  --log FILE      Write a log",
    "messages": "18:02 Priya: who brings the tent\n18:03 Tom: I do\n18:05 Priya: great",
    "logs": "2025-03-02T08:14:55.120Z api: listening on 8443\n2025-03-02T08:15:01.004Z db: waiting 250ms",
    "fields": FORM,
}
PROSE = [
    "The tower was built\nin 1902: it is made\nof brick - and of\nstone.",
    "One line with a colon: and no other.\nThe next line.",
    "A sentence - with a dash\n- and one that goes on.",
    "He said: go.",
    "Two blanks.  After a stop\nor  by chance.",
    "Name:            Rosa Delgado",
    "",
    "\n",
]
WORD = st.from_regex(r"[A-Za-z][a-z]{0,8}", fullmatch=True)
VALUE = st.from_regex(r"[A-Z0-9][A-Za-z0-9.,£]{0,8}( [A-Za-z0-9]{1,8}){0,2}", fullmatch=True)


@pytest.mark.parametrize("kind", LISTS)
def test_every_line_of_a_list_or_a_form_is_by_itself(kind: str) -> None:
    text = LISTS[kind]
    line_ends = [place + 1 for place, letter in enumerate(text) if letter == "\n"]
    breaks = [one for one in breaks_of(text) if one.end in line_ends]
    assert [one.end for one in breaks] == line_ends
    assert all(one.ends_sentence for one in breaks)


COLUMNS = {
    "two fields": ("Surname: Obuya      First name: Grace\nCode: QX7T2M", ["First name"], True),
    "wide gaps": ("Pump C-310   31 EUR   4 in stock", ["31 EUR", "4 in"], False),
    "aligned": ("descale  Run the cleaning.\npour     Make a drink.", ["Run", "Make"], False),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_no_answer_reaches_across_columns(kind: str) -> None:
    text, begins, is_field = COLUMNS[kind]
    breaks = {one.end: one.ends_sentence for one in breaks_of(text)}
    for begin in begins:
        assert breaks[text.index(begin)] is is_field


@pytest.mark.parametrize("text", PROSE)
def test_prose_in_lines_is_one_text(text: str) -> None:
    assert breaks_of(text) == []


def test_blank_lines_and_tabs_break_as_before() -> None:
    found = breaks_of("One.\n \nTwo\tthree")
    assert [(one.start, one.end, one.ends_sentence) for one in found] == [(4, 7, True), (10, 11, False)]


@given(st.text(st.sampled_from("a1:- .\t\n*"), max_size=60))
@settings(max_examples=1000, deadline=None)
def test_breaks_of_any_text_are_in_order_and_hold_blanks_only(text: str) -> None:
    found = breaks_of(text)
    ends = [one.end for one in found]
    assert ends == sorted(set(ends))
    for one in found:
        assert one.start < one.end
        assert text[one.start : one.end].isspace()


@given(st.lists(st.tuples(WORD, VALUE), min_size=2, max_size=6), st.integers(1, 8), WORD)
@settings(max_examples=60, deadline=None)
def test_no_answer_out_of_a_form_has_a_line_end(fields: list[tuple[str, str]], blanks: int, word: str) -> None:
    reader = Reader.load("small")
    text = "\n".join(f"{name}:{' ' * blanks}{value}" for name, value in fields)
    answers = reader.ask(f"What is the {word}?", text, top=10, always=True)
    assert answers
    assert not any("\n" in answer.text for answer in answers)


def test_a_form_is_read_field_by_field() -> None:
    """Seen before: "KX19 FZT Make" and "Renault Zoe Zone", each called sure."""
    reader = Reader.load("base")
    for question, answer in (
        ("What is the vehicle registration?", "KX19 FZT"),
        ("Which zone is requested?", "C2"),
    ):
        assert reader.ask(question, FORM, always=True)[0].text == answer


def test_time_is_linear_in_the_length() -> None:
    for unit in ("a: b\n", "- a\n", "\n", " " * 12 + "\n", "a" * 41 + "\n", "1. ", "1:00\n"):
        text = unit * (400_000 // len(unit))
        begin = time.process_time()
        breaks_of(text)
        assert time.process_time() - begin < 4
