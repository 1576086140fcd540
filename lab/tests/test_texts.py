"""The questions on texts that people have: whole, answerable as written, and scored by the rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.scripts.texts import FILE, ask, judge, read

MARKS = re.compile(r"[`*]|<[^>@]*>")  # of Markdown and HTML, but no address of a mail
LATER = FILE.with_name("later.txt")


def test_twenty_texts_with_ten_questions_each() -> None:
    texts = read(FILE)
    assert len(texts) == 20
    for text in texts:
        assert len(text.questions) == 10
        unanswered = [question for question, accepted in text.questions if not accepted]
        assert len(unanswered) == 2


def test_twelve_later_texts_with_140_questions() -> None:
    texts = read(LATER)
    assert len(texts) == 12
    questions = [question for text in texts for question in text.questions]
    assert len(questions) == 140
    assert sum(not accepted for _, accepted in questions) == 25


@pytest.mark.parametrize("path", [FILE, LATER], ids=["first", "later"])
def test_every_answer_is_in_its_text(path: Path) -> None:
    for text in read(path):
        plain = MARKS.sub("", text.content)
        content = " ".join(plain.split()).lower()
        for question, accepted in text.questions:
            for answer in accepted:
                plain = MARKS.sub("", answer).lower()
                assert plain in content, (text.name, question, answer)


@pytest.mark.parametrize(
    ("given", "accepted", "verdict"),
    [
        ("the Tavy", ("Tavy",), "right"),
        ("31 EUR", ("47 EUR",), "nearly"),
        ("old timber mill in Brackwater", ("timber mill",), "nearly"),
        ("Halden", ("Ostlund",), "wrong"),
        ("", ("Ostlund",), "refused"),
        ("", (), "right"),
        ("Ostlund", (), "wrong"),
    ],
)
def test_the_rule(given: str, accepted: tuple[str, ...], verdict: str) -> None:
    assert judge(given, accepted) == verdict


def test_a_text_is_asked_as_a_person_would() -> None:
    text = next(text for text in read(FILE) if text.name == "river.txt")
    answers = ask(text, "small", None)
    verdicts = []
    for answer, (_, accepted) in zip(answers, text.questions, strict=True):
        verdicts.append(judge(answer, accepted))
    assert verdicts.count("right") >= 6
