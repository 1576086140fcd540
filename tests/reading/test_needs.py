"""What a refusal would need: one rule, told by every door in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.documents.shelf import Shelf
from rmreader.reading.answers import Answer, Answers
from rmreader.reading.needs import missing_words, what_it_needs
from rmreader.reading.reader import Reader
from rmreader.server.mcp import answer_result

PASSAGE = "The museum is open from Tuesday to Sunday. Admission is free on the first Sunday of every month."
QUESTION = "When did Napoleon see the harbour?"
NEEDS = "An answer would need a sentence that says when; this passage never mentions “Napoleon”, “see” or “harbour”."


def test_the_kind_of_answer_and_the_missing_words_are_named() -> None:
    assert what_it_needs(QUESTION, PASSAGE, "this passage") == NEEDS
    assert what_it_needs("Who opened the museums?", PASSAGE, "it") == (
        "An answer would need a sentence that names a person; "
        "it has the words of the question, but no such sentence was found."
    )
    assert what_it_needs("how many guides work here", PASSAGE, "it").startswith(
        "An answer would need a sentence that gives a number; it never mentions “guides”"
    )
    assert "that says it;" in what_it_needs("Which colour is the door?", PASSAGE, "it")


def test_words_of_another_language_are_not_listed_as_missing() -> None:
    german = "Wann hat Napoleon den Hafen gesehen und wie war das?"
    assert what_it_needs(german, PASSAGE, "it") == ("The question looks like German; this reader reads English only.")
    french = "Le musée est ouvert du mardi au dimanche et il est dans la rue des fleurs."
    assert what_it_needs(QUESTION, french, "it") == ("The passage looks like French; this reader reads English only.")


def test_endings_and_common_words_are_not_missing() -> None:
    assert missing_words("What opens on Sundays?", PASSAGE) == []
    assert missing_words("Tell me about the café, the café and x-ray", PASSAGE) == ["café", "x-ray"]


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader.load("small")


def refused(reader: Reader) -> Answers:
    answers = reader.ask(QUESTION, PASSAGE)
    assert answers.refuses
    return answers


def test_python_json_notebook_and_mcp_say_the_same(reader: Reader) -> None:
    answers = refused(reader)
    assert answers.needs == NEEDS
    assert answers.to_dict()["needs"] == NEEDS
    assert answers.refusal_lines() == [answers.refusal(), NEEDS]
    assert NEEDS in answers._repr_html_()
    result = answer_result(answers)
    assert result["content"][0]["text"].splitlines() == answers.refusal_lines()
    assert result["structuredContent"]["needs"] == NEEDS
    again = Answers.from_dict(answers.to_dict())
    assert again.refusal_lines()[1] == NEEDS


def test_the_command_line_says_it_below_the_refusal_and_in_json(tmp_path: Path) -> None:
    words = ["ask", "--text", PASSAGE, QUESTION]
    plain = CliRunner().invoke(app, words)
    assert plain.exit_code == 0, plain.output
    lines = plain.stdout.splitlines()
    assert lines[-2].startswith("  not in this passage")
    assert lines[-1] == f"  {NEEDS}"
    assert json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["needs"] == NEEDS


def test_an_index_speaks_of_the_nearest_passage(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "museum.txt").write_text(PASSAGE, encoding="utf-8")
    shelf = Shelf.open(tmp_path / "it.rmindex", reader)
    shelf.add(tmp_path / "museum.txt")
    found = shelf.ask("When did Napoleon see the museum?")
    assert found.refuses
    assert found.to_dict()["needs"] == (
        "An answer would need a sentence that says when; the nearest passage never mentions “Napoleon” or “see”."
    )


def test_an_answer_and_a_half_sure_refusal_need_nothing() -> None:
    guess = Answer("Ada", 0, 3, -1.0, 0.4, "Ada slept.", 0)
    for answers in (
        Answers((guess,), 0.9, guess, absent=True, needs=NEEDS),
        Answers((), 0.48, guess, absent=True, needs=NEEDS),
        Answers((), 0.1, guess, needs=NEEDS),
    ):
        assert "needs" not in answers.to_dict()
        assert NEEDS not in answers.refusal_lines()
