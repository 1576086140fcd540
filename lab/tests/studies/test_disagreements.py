"""The page of disagreements: every text escaped, both answers marked where they stand, who is
right counted."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_support.networks import open_network

from lab.studies.disagreements import Case, compare, counts, page
from rmreader.data.encode import encode_file
from rmreader.data.squad import read_squad
from rmreader.reading.answers import Answer
from rmreader.scoring.squad import normalize
from rmreader.training.evaluate import predict


class Reading(HTMLParser):
    """The page as a browser sees it: elements, attributes that lead outside, and the text under
    each mark."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.marks: dict[str, str] = {"in1": "", "in2": ""}
        self.text = ""
        self.passage = ""
        self._passage = False
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [
            value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")
        ]
        if tag == "mark":
            self._inside = (dict(attrs)["class"] or "").split()
        self._passage = self._passage or (tag == "p" and dict(attrs).get("class") == "passage")

    def handle_endtag(self, tag: str) -> None:
        if tag == "mark":
            self._inside = []
        self._passage = self._passage and tag != "p"

    def handle_data(self, data: str) -> None:
        self.text += data
        self.passage += data if self._passage else ""
        for name in self._inside:
            self.marks[name] += data


def case(passage: str, first: tuple[int, int], second: tuple[int, int], **more: Any) -> Case:
    one, other = (
        Answer(
            passage[a:b],
            a,
            b,
            0.0,
            0.0,
            "",
            a,
        )
        for a, b in (first, second)
    )
    fields: dict[str, Any] = {
        "id": "q",
        "question": "Who?",
        "references": ["x"],
        **more,
    }
    return Case(
        passage=passage, answers=(one, other), **{"scores": ((1.0, 1.0), (0.0, 0.5)), **fields}
    )


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


@settings(deadline=None)
@given(TEXT, st.data())
def test_marks_stand_where_the_answers_stand_and_the_passage_is_as_it_was(
    passage: str, data: st.DataObject
) -> None:
    places = st.integers(0, len(passage))
    spans = [tuple(sorted((data.draw(places), data.draw(places)))) for _ in range(2)]
    one = case(passage, *spans)  # type: ignore[arg-type]
    seen = Reading(
        page(
            "t",
            ("a", "b"),
            [one],
            1,
        ).decode()
    )
    assert seen.passage == passage
    assert seen.marks == {"in1": one.answers[0].text, "in2": one.answers[1].text}


def test_nothing_in_the_data_becomes_markup_and_nothing_comes_from_outside() -> None:
    evil = "</p><script src=//x></script>\"'&<img src=x onerror=y>"
    one = case(
        evil,
        (0, 4),
        (2, 9),
        question=evil,
        references=[evil],
        id=evil,
    )
    seen = Reading(
        page(
            evil,
            (evil, evil),
            [one],
            1,
        ).decode()
    )
    assert not {"script", "img", "link", "iframe"} & set(seen.tags)
    assert seen.outside == []
    assert seen.text.count(evil) >= 4


def test_who_is_right_is_counted() -> None:
    rows = [
        ((1.0, 1.0), (0.0, 0.5)),
        ((0.0, 0.5), (0.0, 0.0)),
        ((0.0, 0.0), (1.0, 1.0)),
        ((0.0, 0.4), (0.0, 0.4)),
    ]
    cases = [
        case(
            "a b",
            (0, 1),
            (2, 3),
            scores=row,
        )
        for row in rows
    ]
    assert counts(cases) == {
        "total": 4,
        "first_exact": 1,
        "second_exact": 1,
        "first_better": 2,
        "second_better": 1,
        "first_rough": 2,
        "second_rough": 2,
    }


def test_the_cases_are_the_questions_that_two_readers_answer_differently(
    tiny: Any, make_reader: Callable[..., Path]
) -> None:
    encoded = encode_file(tiny.dev)
    folders = [make_reader(1), make_reader(2)]
    cases = compare(folders, read_squad(tiny.dev))
    answers = []
    for folder in folders:
        network, feed, recipe = open_network(folder, encoded, torch.device("cpu"))
        answers.append(predict(network, feed, recipe.decoding.max_length)[0])
    differ = [
        i for i in range(len(encoded)) if normalize(answers[0][i]) != normalize(answers[1][i])
    ]
    assert differ
    for found in (
        cases,
        compare(folders, read_squad(tiny.dev), "cpu"),
    ):  # as `evaluate` reads, and in torch
        assert [one.id for one in found] == [encoded.ids[i] for i in differ]
        # A reader leaves out marks at the edges of an answer, and the trainer does not.
        texts = [tuple(normalize(answer.text) for answer in one.answers) for one in found]
        assert texts == [(normalize(answers[0][i]), normalize(answers[1][i])) for i in differ]
