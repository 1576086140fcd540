"""Questions typed in a hurry."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmreader.data.negatives import hurried, slip, with_hurried
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference

ASKED = "Who built the famous lighthouse of Halvorsen?"


def dataset(texts: list[str]) -> Dataset:
    questions = tuple(Question(f"q{n}", text, (Reference("It", 0),)) for n, text in enumerate(texts))
    return Dataset((Article("One", (Paragraph("It is.", questions),)),))


def draw(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.text("abcdefgh ?", max_size=40), st.integers(0, 1000))
def test_a_slip_changes_one_word_by_a_letter(text: str, seed: int) -> None:
    before, after = text.split(" "), slip(text, draw(seed)).split(" ")
    assert len(before) == len(after)
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) <= 1
    for a, b in changed:
        assert len(a) >= 5
        assert (a[0], a[-1]) == (b[0], b[-1])
        assert abs(len(a) - len(b)) <= 1
        assert len(a) != len(b) or sorted(a) == sorted(b)


def test_every_kind_of_slip_happens() -> None:
    found = {slip("lighthouse", draw(seed)) for seed in range(300)}
    assert {"lghthouse", "liighthouse", "lgihthouse"} <= found


def test_marks_go_always_capitals_often_letters_at_times() -> None:
    found = [hurried(ASKED, draw(seed)) for seed in range(600)]
    assert not any(text.endswith("?") for text in found)
    assert 0.4 < np.mean([text == text.lower() for text in found]) < 0.6
    kept = {ASKED.rstrip("?"), ASKED.rstrip("?").lower()}
    assert 0.2 < np.mean([text not in kept for text in found]) < 0.4


@given(st.text(max_size=20), st.integers(0, 100))
def test_a_question_is_never_emptied(text: str, seed: int) -> None:
    assert bool(hurried(text, draw(seed))) == bool(text)


def test_a_share_of_the_questions_changes_and_nothing_else_does() -> None:
    before = dataset([ASKED] * 1000)
    after = with_hurried(before, 0.25, seed=3)
    old, new = (list(one.articles[0].paragraphs[0].questions) for one in (before, after))
    assert [(q.id, q.answers, q.impossible) for q in old] == [(q.id, q.answers, q.impossible) for q in new]
    assert after.articles[0].paragraphs[0].context == "It is."
    assert 200 < sum(a.text != b.text for a, b in zip(old, new, strict=True)) < 300
    assert with_hurried(before, 0.25, seed=3) == after
    assert with_hurried(before, 0.25, seed=4) != after
    assert with_hurried(before, 0.0) == before


def test_a_question_is_typed_the_same_whatever_stands_beside_it() -> None:
    many, few = (with_hurried(dataset([ASKED] * n), 0.5).articles[0].paragraphs[0].questions for n in (40, 10))
    assert many[:10] == few
