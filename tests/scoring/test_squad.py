"""The official SQuAD rule, against a second implementation written out step by step and against published scores."""

from __future__ import annotations

import gzip
import json
import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference, read_squad
from rmreader.scoring.squad import exact_match, f1, normalize, score

TEXT = st.text(alphabet=st.sampled_from("aAtThHeEnN b.,'-\u2019\u00a0\u00e9\n1"), max_size=30)


def plain_normalize(text: str) -> str:
    lowered = text.lower()
    kept = "".join(character for character in lowered if character not in set(string.punctuation))
    without = re.sub(r"\b(a|an|the)\b", " ", kept)
    return " ".join(without.split())


def plain_f1(prediction: str, reference: str) -> float:
    left, right = plain_normalize(prediction).split(), plain_normalize(reference).split()
    rest, same = list(right), 0
    for word in left:
        if word in rest:
            rest.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(left), same / len(right)
    return 2 * precision * recall / (precision + recall)


def data(*questions: Question) -> Dataset:
    return Dataset((Article("t", (Paragraph("c", questions),)),))


def asked(id: str, *answers: str, impossible: bool = False) -> Question:
    return Question(id, "?", tuple(Reference(answer, 0) for answer in answers), impossible)


@given(TEXT)
def test_normalising_is_the_official_order_of_steps(text: str) -> None:
    assert normalize(text) == plain_normalize(text)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=4))
def test_scores_are_the_best_over_the_references(prediction: str, references: list[str]) -> None:
    expected = max(float(plain_normalize(prediction) == plain_normalize(reference)) for reference in references)
    assert exact_match(prediction, references) == expected
    assert f1(prediction, references) == max(plain_f1(prediction, reference) for reference in references)


@given(TEXT.filter(lambda text: bool(plain_normalize(text))))
def test_a_text_matches_itself(text: str) -> None:
    assert exact_match(text, [text]) == 1.0
    assert f1(text, [text]) == 1.0


def test_punctuation_goes_before_articles_so_that_hyphens_join_words() -> None:
    assert normalize("The A-Team,  an\u00a0end.") == "ateam end"


def test_the_empty_answer_keeps_the_quirk_of_the_official_script() -> None:
    assert exact_match("the", ["The"]) == 1.0  # both normalise to nothing
    assert f1("the", ["The"]) == 0.0


def test_repeated_words_count_as_often_as_they_are_shared() -> None:
    assert f1("no no no", ["no no"]) == pytest.approx(0.8)


def test_a_missing_prediction_counts_as_wrong_and_is_counted() -> None:
    result = score(data(asked("1", "x"), asked("2", "x"), asked("3", "x y")), {"1": "x", "3": "x"})
    assert (result.total, result.missing) == (3, 1)
    assert result.exact_match == pytest.approx(100 / 3)
    assert result.f1 == pytest.approx(100 * (1 + 2 / 3) / 3)


def test_an_impossible_question_wants_the_empty_answer() -> None:
    questions = data(asked("1", impossible=True), asked("2", impossible=True), asked("3", impossible=True))
    result = score(questions, {"1": "", "2": "something"})
    assert result.exact_match == pytest.approx(100 / 3)
    assert result.f1 == pytest.approx(100 / 3)
    assert result.missing == 1


def test_what_cannot_be_scored_is_said() -> None:
    with pytest.raises(UserError, match="question 7: it has no reference answer"):
        score(data(asked("7")), {"7": "x"})
    with pytest.raises(UserError, match="no question"):
        score(data(), {})


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "em", "overlap", "missing"),
    [("bert-ensemble", 86.206, 92.196, 0), ("logistic-regression", 40.142, 50.982, 13)],
)
def test_published_predictions_score_as_published(
    real_data: Path, name: str, em: float, overlap: float, missing: int
) -> None:
    dev = read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz")
    predictions = json.loads(gzip.decompress((real_data / "predictions" / f"{name}.json.gz").read_bytes()))
    result = score(dev, predictions)
    assert (round(result.exact_match, 3), round(result.f1, 3)) == (em, overlap)
    assert (result.total, result.missing) == (10_570, missing)
