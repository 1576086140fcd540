"""Near misses: a twin never answers, what is still answered stays there, all come in pairs."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.foundry.near_misses import near_misses, with_paragraphs
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference

TOWNS = ["Arles", "Vienna", "New York", "Port Said", "Kyoto", "Santa Cruz"]
MASONS = ["Ada Berg", "Omar Lind", "Ines Costa", "Paul Novak"]


def paragraph(name: str, town: str, mason: str, year: int, before: str = "") -> Paragraph:
    """A bridge with a mason and a year, and two questions that name its town."""
    context = f"{before}The bridge at {town} was finished in {year} by {mason}. It is long."
    questions = []
    for kind, text, answer in (
        ("when", f"When was the bridge at {town} finished?", str(year)),
        ("who", f"Who finished the bridge at {town}?", mason),
    ):
        reference = Reference(answer, context.index(answer))
        questions.append(
            Question(
                f"{name}-{kind}",
                text,
                (reference,),
            )
        )
    return Paragraph(context, tuple(questions))


def bridges(count: int = 12) -> Dataset:
    """Bridges in several articles, so that there are other names to take."""
    draw = np.random.default_rng(1)
    articles = []
    for number in range(count):
        town = TOWNS[number % len(TOWNS)]
        mason = MASONS[number % len(MASONS)]
        year = int(draw.integers(1700, 1900))
        before = "Many bridges are old. " if number % 2 else ""
        bridge = paragraph(
            f"q{number}",
            town,
            mason,
            year,
            before,
        )
        articles.append(Article(f"a{number}", (bridge,)))
    return Dataset(tuple(articles))


def alone(context: str, question: Question) -> Article:
    """An article of one paragraph with one question."""
    return Article("a", (Paragraph(context, (question,)),))


def test_a_twin_beside_leaves_the_answer_where_it_is_and_one_in_its_place_takes_it_away() -> None:
    rows = list(
        near_misses(
            bridges(),
            1.0,
            seed=3,
        )
    )
    assert len(rows) > 30
    for _, passage, question in rows:
        for answer in question.answers:
            end = answer.start + len(answer.text)
            assert passage[answer.start : end] == answer.text
        town = re.search(r"bridge at ([\w ]+?)(?: finished)?\?", question.text)
        assert town is not None
        named = f"The bridge at {town[1]} was"
        assert (named in passage) == bool(question.answers)
        assert passage.count("The bridge at") == (2 if question.answers else 1)


def test_every_question_comes_with_and_without_its_answer() -> None:
    rows = list(
        near_misses(
            bridges(),
            1.0,
            seed=3,
        )
    )
    beside = set()
    twins = set()
    for _, _, question in rows:
        if question.impossible:
            twins.add(question.id.removesuffix("-twin"))
        else:
            beside.add(question.id.removesuffix("-beside"))
    assert beside == twins


def test_a_share_of_the_questions_and_the_same_again_by_the_same_seed() -> None:
    whole = list(
        near_misses(
            bridges(40),
            1.0,
            seed=3,
        )
    )
    half = list(
        near_misses(
            bridges(40),
            0.5,
            seed=3,
        )
    )
    assert 0.3 * len(whole) < len(half) < 0.7 * len(whole)
    assert half == list(
        near_misses(
            bridges(40),
            0.5,
            seed=3,
        )
    )
    assert half != list(
        near_misses(
            bridges(40),
            0.5,
            seed=4,
        )
    )


def test_a_sentence_without_the_case_that_is_asked_for_has_no_twin() -> None:
    context = "It was finished in 1825. The bridge is long."
    question = Question(
        "q",
        "When was the bridge finished?",
        (Reference("1825", 19),),
    )
    dataset = Dataset((alone(context, question),))
    assert (
        list(
            near_misses(
                dataset,
                1.0,
                seed=1,
            )
        )
        == []
    )


def test_they_are_added_to_the_articles_that_they_come_from() -> None:
    dataset = bridges(4)
    rows = list(
        near_misses(
            dataset,
            1.0,
            seed=3,
        )
    )
    more = with_paragraphs(dataset, rows)
    for number, article in enumerate(more.articles):
        own = [passage for place, passage, _ in rows if place == number]
        old = dataset.articles[number].paragraphs
        assert article.paragraphs[: len(old)] == old
        new = article.paragraphs[len(old) :]
        assert [paragraph.context for paragraph in new] == own


@given(
    st.text(min_size=1, max_size=60),
    st.integers(0, 50),
    st.integers(1, 10),
)
def test_no_text_breaks_them(text: str, start: int, length: int) -> None:
    start = min(start, len(text) - 1)
    answer = text[start : start + length]
    asked = Question(
        "q",
        f"What of Arles 1825 {text}?",
        (Reference(answer, start),),
    )
    articles = (
        alone(text, asked),
        *bridges(4).articles,
    )
    dataset = Dataset(articles)
    for _, passage, question in near_misses(
        dataset,
        1.0,
        seed=2,
    ):
        for reference in question.answers:
            end = reference.start + len(reference.text)
            assert passage[reference.start : end] == reference.text
