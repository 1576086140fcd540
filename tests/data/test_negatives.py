"""Questions beside paragraphs that do not answer them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.data.negatives import Nearest, asked_together, holds, negatives, with_negatives, without_answer, words_of
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference

TEXTS = [
    "The lighthouse was built in 1871 by Ingrid Halvorsen.",
    "The lighthouse was moved inland in 1924 because of the sea.",
    "Visitors climb the steps of the tower every year.",
    "A museum of whaling stands in the harbour.",
]


def dataset() -> Dataset:
    def question(name: str, text: str, context: str, answer: str) -> Question:
        return Question(name, text, (Reference(answer, context.index(answer)),))

    first = question("q1", "When was the lighthouse built?", TEXTS[0], "1871")
    second = question("q2", "Who climbs the tower?", TEXTS[2], "Visitors")
    one = Article(
        "Lighthouse", (Paragraph(TEXTS[0], (first,)), Paragraph(TEXTS[1], ()), Paragraph(TEXTS[2], (second,)))
    )
    other = Article("Museum", (Paragraph(TEXTS[3], ()), Paragraph("A lighthouse of 1871 is its emblem.", ())))
    return Dataset((one, other))


@given(st.lists(st.text("ab c", max_size=12), min_size=1, max_size=6), st.text("ab c", max_size=8))
def test_bm25_is_its_formula(texts: list[str], query: str) -> None:
    counts = [Counter(words_of(text)) for text in texts]
    average = max(1.0, sum(count.total() for count in counts) / len(counts))
    scores = Nearest(texts).scores(query)
    for row, count in enumerate(counts):
        expected = 0.0
        for word in set(words_of(query)):
            holding = sum(word in other for other in counts)
            if count[word]:
                idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
                norm = 1.2 * (1 - 0.75 + 0.75 * count.total() / average)
                expected += idf * count[word] * 2.2 / (count[word] + norm)
        assert math.isclose(scores[row], expected, abs_tol=1e-9)


def test_the_nearest_paragraph_without_the_answer_is_taken() -> None:
    found = {q.id: (number, context) for number, context, q in negatives(dataset(), 1.0, "article", nearest=1)}
    assert found["q1"] == (0, TEXTS[1])
    elsewhere = {q.id: context for _, context, q in negatives(dataset(), 1.0, "elsewhere", nearest=1)}
    assert elsewhere["q1"] == TEXTS[3]  # the other one holds 1871


def test_negatives_stay_in_their_article_and_are_impossible_and_new() -> None:
    made = with_negatives(dataset(), near=1.0, far=1.0)
    assert [article.title for article in made.articles] == ["Lighthouse", "Museum"]
    questions = [question for _, question in made.questions()]
    assert len({question.id for question in questions}) == len(questions) == 6
    assert all(question.impossible == ("-" in question.id) for question in questions)
    assert not [q for p in made.articles[1].paragraphs for q in p.questions]
    for article in made.articles:
        for paragraph in article.paragraphs:
            for question in paragraph.questions:
                original = {q.id: q for _, q in dataset().questions()}[question.id.split("-")[0]]
                assert holds(paragraph.context, original) != question.impossible


def test_a_paragraph_that_is_there_twice_gets_its_negatives_once() -> None:
    base = dataset()
    twice = Dataset((Article("Lighthouse", (*base.articles[0].paragraphs, Paragraph(TEXTS[1], ()))), base.articles[1]))
    names = [question.id for _, question in with_negatives(twice, near=1.0, far=0.0).questions()]
    assert len(names) == len(set(names))


LEASE = "The rent is £900. It is due on the 3rd.\nWater is included. Dogs need consent, cats do not. Heating: gas."


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("£900", "It is due on the 3rd.\nWater is included. Dogs need consent, cats do not. Heating: gas."),
        ("the 3rd", "The rent is £900. Water is included. Dogs need consent, cats do not. Heating: gas."),
        ("cats", "The rent is £900. It is due on the 3rd.\nWater is included. Heating: gas."),
        ("gas", "The rent is £900. It is due on the 3rd.\nWater is included. Dogs need consent, cats do not."),
        ("is", None),  # other sentences have it too
    ],
)
def test_a_passage_is_cut_by_the_sentence_that_answers(answer: str, left: str | None) -> None:
    question = Question("q", "?", (Reference(answer, LEASE.index(answer)),))
    assert without_answer(LEASE, question) == left


@given(st.text(alphabet="ab. \n!?", min_size=1, max_size=60), st.data())
def test_what_is_left_of_a_passage_is_of_it_and_holds_no_answer(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    question = Question("q", "?", (Reference(text[start : start + 3], start),))
    left = without_answer(text, question)
    if left is not None:
        assert len(left) >= len(text) / 2
        assert not holds(left, question)
        assert not Counter(left) - Counter(text)


def test_a_cut_passage_is_asked_the_same_question() -> None:
    question = Question("q", "How much is the rent?", (Reference("£900", LEASE.index("£900")),))
    made = with_negatives(Dataset((Article("A", (Paragraph(LEASE, (question,)),)),)), near=0.0, far=0.0, cut=1.0)
    whole, cut = made.articles[0].paragraphs
    assert whole == Paragraph(LEASE, (question,))
    assert cut == Paragraph(LEASE.removeprefix("The rent is £900. "), (Question("q-cut", question.text, (), True),))
    assert asked_together(["q", "q-cut"]).tolist() == [0, 0]


def test_a_question_and_its_negatives_are_a_group() -> None:
    made = with_negatives(dataset(), near=1.0, far=1.0)
    names = [question.id for article in made.articles for p in article.paragraphs for question in p.questions]
    groups = asked_together(names)
    assert len(set(groups.tolist())) == 2
    for name, group in zip(names, groups.tolist(), strict=True):
        assert group == groups[names.index(name[:2])]
    assert asked_together(["a", "a-b", "article", "-article", "a-article-elsewhere"]).tolist() == [0, 1, 2, 3, 4]
    assert asked_together(["a-elsewhere", "a-article"]).tolist() == [0, 0]  # whose original could not be read
