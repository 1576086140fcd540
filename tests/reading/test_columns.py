"""Column names in rows that are read as text: no answer begins or ends with one, none is a second answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.places import TextSpan, join
from rmreader.documents.tables import Header, Table
from rmreader.reading.columns import ColumnNames
from rmreader.reading.reader import Reader

WORD = st.from_regex(r"[A-Za-z][a-z0-9]{0,7}", fullmatch=True)
NAME = st.builds(str.title, WORD) | st.builds("{} {}".format, WORD, WORD) | st.builds("{} (EUR)".format, WORD)
CELL = WORD | st.from_regex(r"[1-9][0-9]{0,3}(\\.[0-9]{2})?", fullmatch=True) | st.builds("{}, {}".format, WORD, WORD)
CREW = "Name: Ida, Role: cook, Cabin: B1.\n\nName: Omar, Role: pilot, Cabin: A2."


def table_text(names: list[str], rows: list[list[str]]) -> str:
    """The rows as a file with this table is read."""
    out = ParagraphBuilder()
    table = Table(out, Header.YES)
    for row in (names, *rows):
        table.add([TextSpan(text, ((0, 0, len(text)),)) for text in row])
    table.end()
    return join(out.finish()).text


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], str]:
    names = draw(st.lists(NAME, min_size=2, max_size=5, unique_by=str.lower))
    row = st.lists(CELL, min_size=len(names), max_size=len(names))
    rows = draw(st.lists(row, min_size=2, max_size=6))
    return names, rows, table_text(names, rows)


@settings(max_examples=500, deadline=None)
@given(tables(), st.data())
def test_any_span_of_a_table_becomes_part_of_one_cell_or_is_a_name(
    table: tuple[list[str], list[list[str]], str], data: st.DataObject
) -> None:
    names, _, text = table
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, min(len(text), start + 60)))
    assume(text[start:end].strip(" ,:.\n"))
    columns = ColumnNames(text)
    new_start, new_end = columns.within_cell(start, end)
    assert start <= new_start < new_end <= end
    if columns.is_name(start, end):
        assert any(text[start:end].rstrip(": ") in name for name in names)
        assert (new_start, new_end) == (start, end)
        return
    line = text[new_start:new_end].partition("\n")[0]
    assert not any(f", {name}: " in f", {line}" for name in names)


def test_examples() -> None:
    for span, answer in (
        ("cook, Cabin: B1", "cook"),
        ("Role: cook", "cook"),
        ("Role: cook, Cabin: B1", "cook"),
        ("Role", "Role"),
        ("Omar", "Omar"),
    ):
        at = CREW.index(span)
        start, end = ColumnNames(CREW).within_cell(at, at + len(span))
        assert CREW[start:end] == answer


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("Hours: Mon: 9, Tue: 10.\nHours: Mon: 8, Tue: 9.", "Mon: 9, Tue: 10"),
        ("He said: go, then: stop.", "go, then: stop"),
        ("Ada: I bring the cake.\nBen: I bring tea.\nAda: Good.\nBen: Fine.", "Ada"),
        ("Ada: I bring the cake.\nBen: I bring tea.\nAda: Good.\nBen: Fine.", "Ben: I bring tea"),
        ("Name: Ida\nRole: cook\nCabin: B1", "Role: cook"),
    ],
)
def test_what_is_no_table_stays_as_it_is(text: str, span: str) -> None:
    at = text.index(span)
    assert ColumnNames(text).within_cell(at, at + len(span)) == (at, at + len(span))
    assert not ColumnNames(text).is_name(at, at + len(span))


@given(st.text(st.sampled_from("ab:, .\n"), max_size=80), st.data())
@settings(max_examples=500, deadline=None)
def test_any_text_keeps_something_of_a_span(text: str, data: st.DataObject) -> None:
    assume(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    new_start, new_end = ColumnNames(text).within_cell(start, end)
    assert start <= new_start < new_end <= end


def test_a_column_name_is_no_second_answer() -> None:
    reader = Reader.load("small")
    names = ["Part", "Price", "Stock", "Supplier"]
    rows = [["Pump C-310", "31 EUR", "4", "Halvorsen"], ["Valve V-22", "12 EUR", "17", "Brandt & Sons"]]
    text = table_text(names, rows)
    for question in (
        "Which part costs 12 EUR?",
        "Which part does Halvorsen supply?",
        "What is the price of Valve V-22?",
    ):
        answers = reader.ask(question, text, top=20, always=True)
        assert len(answers) > 3
        texts = [answer.text for answer in answers]
        assert texts[0] in names or not set(texts) & set(names)
        assert len(set(texts)) == len(texts)
        assert not any(": " in text for text in texts)


def test_a_column_name_may_follow_another() -> None:
    """Where the best answer is the name of a column, the question asks for one."""
    reader = Reader.load("small")
    names = ["Course", "Monday", "Tuesday"]
    text = table_text(names, [["Yoga", "9:00", "closed"], ["Chess", "closed", "17:00"]])
    answers = reader.ask("Which weekday, Monday or Tuesday?", text, top=20, always=True)
    is_name = [answer.text in names for answer in answers]
    assert is_name[0] or not any(is_name)


def test_time_is_linear_in_the_length() -> None:
    for unit in ("a: b, ", "a, ", ", a: b\n", ": ", "a" * 59 + ": ", "\n"):
        text = unit * (400_000 // len(unit))
        begin = time.process_time()
        ColumnNames(text)
        assert time.process_time() - begin < 4
