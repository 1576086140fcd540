"""Groups of questions and what is kept of each: as loops over the questions find them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.studies.groups import GROUPS, TWINS, each_question, each_twin, groups_of, pack, unpack
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference


def dataset(*rows: tuple[str, str, str, int]) -> Dataset:
    """A paragraph for each (id, question, answer, words of the passage)."""
    made = []
    for id, text, answer, words in rows:
        more = words - len(answer.split())
        context = " ".join([answer, *["word"] * more])
        question = Question(id, text, (Reference(answer, 0),))
        made.append(Paragraph(context, (question,)))
    return Dataset((Article("t", tuple(made)),))


@given(st.lists(st.integers(0, 255)))
def test_what_is_packed_comes_back(values: list[int]) -> None:
    assert unpack(pack(values)).tolist() == values


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How many ships sank?", "how many"),
        ("how did it end?", "how"),
        ("In what year was it?", "what"),
        ("Whose dog was it?", "whose"),
        ("The whole thing began where?", "where"),  # who is no word of it
        ("Name a ship.", "other"),
        ("WHY?", "why"),
    ],
)
def test_the_type_is_the_first_question_word(question: str, kind: str) -> None:
    groups = groups_of(dataset(("a", question, "x", 5)))
    (place,) = unpack(groups["question"])
    assert GROUPS["question"][place] == kind


@pytest.mark.parametrize(
    ("words", "passage"),
    [
        (5, "0 to 99 words"),
        (99, "0 to 99 words"),
        (100, "100 to 149 words"),
        (300, "300 words or more"),
    ],
)
def test_lengths_begin_where_they_say(words: int, passage: str) -> None:
    data = dataset(
        ("a", "Who?", "x y", words),
        ("b", "Who?", "x y z x y z x y", words),
    )
    groups = groups_of(data)
    names = [GROUPS["passage"][place] for place in unpack(groups["passage"])]
    assert names == [passage, passage]
    names = [GROUPS["answer"][place] for place in unpack(groups["answer"])]
    assert names == ["2 words", "8 words or more"]


def test_the_f1_of_every_question_is_kept_to_a_byte() -> None:
    data = dataset(
        ("a", "Who?", "Ada Byron", 9),
        ("b", "Who?", "Ada", 9),
        ("c", "Who?", "Ada", 9),
    )
    kept = unpack(each_question(data, {"a": "Ada", "b": "Ada"}))
    assert kept.tolist() == [170, 255, 0]  # F1 2/3, 1, and no answer at all


def test_twins_are_the_attacked_originals_at_their_worst() -> None:
    ids = [f"{k}{variant}" for k in range(4) for variant in ("", "-high", "-turk")]
    ids.append("4")  # which has no variant
    right = {
        "0": 1,
        "0-high": 1,
        "0-turk": 1,
        "1": 1,
        "1-high": 1,
        "1-turk": 0,
        "2": 0,
        "2-high": 1,
        "2-turk": 1,
    }
    data = dataset(*((id, "Who?", "Ada", 9) for id in ids))
    texts = {id: "Ada" if right.get(id) else "Bob" for id in ids}
    places = unpack(each_twin(data, texts))
    assert [TWINS[place] for place in places] == [
        "right with it and without",
        "right without it only",
        "right with it only",
        "wrong both times",
    ]
