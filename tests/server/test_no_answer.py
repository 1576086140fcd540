"""What the API says where the passage does not say."""

from __future__ import annotations

from typing import Any

import pytest

from rmreader.reading.needs import what_it_needs
from rmreader.reading.reader import Reader
from rmreader.server.cost import weigh
from rmreader.server.jobs import SLICE

THERE, ABSENT = "Who was the engineer?", "When did Napoleon see the canal?"


@pytest.fixture
def unsure(start: Any, doubting: Reader) -> Any:
    return start(doubting)


def test_no_answer_comes_with_its_chance_and_the_best_guess(unsure: Any, doubting: Reader, passage: str) -> None:
    body = unsure.post("/v1/answer", {"question": ABSENT, "passage": passage, "top": 3}).json()
    assert set(body) == {"answer", "answers", "no_answer", "guess", "needs"}
    assert (body["answer"], body["answers"]) == (None, [])
    assert body["needs"] == what_it_needs(ABSENT, passage, "this passage")
    assert body["no_answer"] == pytest.approx(0.94)
    guess = doubting.ask(ABSENT, passage).guess
    assert guess is not None
    assert body["guess"] == pytest.approx(guess.to_dict() | {"doubt": "perhaps"})
    assert passage[body["guess"]["start"] : body["guess"]["end"]] == body["guess"]["text"]


def test_an_answer_comes_with_the_chance_and_no_guess(unsure: Any, doubting: Reader, passage: str) -> None:
    body = unsure.post("/v1/answer", {"question": THERE, "passage": passage, "top": 3}).json()
    assert set(body) == {"answer", "answers", "no_answer"}
    assert body["no_answer"] == pytest.approx(0.06)
    assert [a["text"] for a in body["answers"]] == [a.text for a in doubting.ask(THERE, passage, top=3)]


def test_always_is_each_questions_own(unsure: Any, doubting: Reader, passage: str) -> None:
    asks = [(question, always, top) for question in (THERE, ABSENT) for always in (False, True) for top in (1, 4)]
    items = [{"question": q, "passage": passage, "always": always, "top": top} for q, always, top in asks]
    found = unsure.post("/v1/answers", {"items": items}).json()["items"]
    for (question, always, top), body in zip(asks, found, strict=True):
        expected = doubting.ask(question, passage, top=top, always=always)
        assert [a["text"] for a in body["answers"]] == [a.text for a in expected]
        assert len(expected) == (0 if question == ABSENT and not always else top)
        assert ("guess" in body) == (not expected)
        assert body["no_answer"] == pytest.approx(expected.none)


def test_what_is_not_sure_enough_is_a_guess_too(unsure: Any, passage: str) -> None:
    body = unsure.post("/v1/answer", {"question": THERE, "passage": passage, "min_confidence": 1.0}).json()
    assert body["answers"] == []
    assert body["no_answer"] == pytest.approx(0.06)
    assert body["guess"]["text"]


@pytest.mark.parametrize("always", [False, True])
def test_a_long_passage_read_in_parts_is_decided_alike(
    start: Any, doubting: Reader, passage: str, always: bool
) -> None:
    server, long = start(doubting, deadline=300), " ".join([passage] * 60)
    assert weigh(ABSENT, long) > SLICE
    for question in (THERE, ABSENT):
        ask = {"question": question, "passage": long, "top": 2, "always": always}
        body = server.client.post("/v1/answer", json=ask, timeout=300).json()
        expected = doubting.ask(question, long, top=2, always=always)
        assert [a["text"] for a in body["answers"]] == [a.text for a in expected]
        assert len(expected) == (0 if question == ABSENT and not always else 2)
        assert body["no_answer"] == pytest.approx(expected.none)
        assert expected.guess is not None
        if not expected:
            assert body["guess"]["start"] == expected.guess.start


@pytest.mark.parametrize("always", [1, "true", None])
def test_always_is_true_or_false(unsure: Any, passage: str, always: Any) -> None:
    response = unsure.post("/v1/answer", {"question": THERE, "passage": passage, "always": always})
    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith("always: ")


def test_a_reader_that_cannot_tell_says_nothing_of_it(start: Any, reader: Reader, passage: str) -> None:
    plain = Reader(reader.folder, reader.engine)
    plain.decision = None
    server = start(plain)
    for always in (False, True):
        body = server.post("/v1/answer", {"question": ABSENT, "passage": passage, "always": always}).json()
        assert set(body) == {"answer", "answers"}
        assert body["answer"] is not None
