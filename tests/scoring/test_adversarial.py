"""The score of AddSent and AddOneSent: each original at its worst variant."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference, read_squad
from rmreader.scoring.squad import exact_match, f1, original, score, score_adversarial


def data(*ids: str, answer: str = "red fox") -> Dataset:
    questions = tuple(Question(id, "?", (Reference(answer, 0),)) for id in ids)
    return Dataset((Article("t", (Paragraph(answer, questions),)),))


def test_the_worst_variant_counts_and_not_the_unattacked_row() -> None:
    rows = data("a", "a-turk0", "a-turk1", "b")
    result = score_adversarial(rows, {"a": "red fox", "a-turk0": "red fox", "a-turk1": "fox", "b": "red fox"})
    assert (result.total, result.attacked, result.missing) == (2, 1, 0)
    assert result.exact_match == 50.0
    assert result.f1 == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert result.clean.exact_match == 100.0


def test_a_wrong_unattacked_row_does_not_count_where_there_are_variants() -> None:
    result = score_adversarial(data("a", "a-x"), {"a": "wrong", "a-x": "red fox"})
    assert result.exact_match == result.f1 == 100.0
    assert result.clean.f1 == 0.0


def test_the_order_of_rows_does_not_matter_to_what_counts() -> None:
    predictions = {"a": "fox", "a-x": "red fox", "a-y": "red"}
    for ids in (("a", "a-x", "a-y"), ("a-y", "a-x", "a"), ("a-x", "a", "a-y")):
        assert score_adversarial(data(*ids), predictions).f1 == pytest.approx(200 / 3)


def test_the_exact_match_is_that_of_the_lowest_variant_and_not_the_lowest_exact_match() -> None:
    # "fox red" holds the same words (F1 1, EM 0); the variant with the lower F1 decides, whatever its EM.
    result = score_adversarial(data("a-x", "a-y", answer="red fox"), {"a-x": "red fox", "a-y": "fox red"})
    assert (result.exact_match, result.f1) == (100.0, 100.0)  # a tie: the first in the file, as its authors do
    # Articles alone: EM 1 with F1 0, the quirk of the official rule.
    result = score_adversarial(data("a-x", "a-y", answer="the"), {"a-x": "a", "a-y": "fox"})
    assert (result.exact_match, result.f1) == (100.0, 0.0)


def test_a_missing_prediction_of_one_variant_brings_the_original_to_zero() -> None:
    result = score_adversarial(data("a", "a-x", "a-y"), {"a": "red fox", "a-x": "red fox"})
    assert (result.exact_match, result.f1, result.missing) == (0.0, 0.0, 1)
    assert result.clean.missing == 0


def test_ids_name_their_original() -> None:
    assert original("56be4db0acb8001400a502ee-high-conf-turk0") == "56be4db0acb8001400a502ee"
    assert original("56be4db0acb8001400a502ee") == "56be4db0acb8001400a502ee"


def test_an_empty_set_cannot_be_scored() -> None:
    with pytest.raises(UserError, match="no question"):
        score_adversarial(Dataset(()), {})


@given(st.dictionaries(st.sampled_from(["a", "b", "a-1", "a-2", "b-1", "c", "d-1"]), st.sampled_from(["red", "fox"])))
def test_agrees_with_the_rule_spelled_out(predictions: dict[str, str]) -> None:
    ids = ["a", "b", "a-1", "a-2", "b-1", "c", "d-1"]
    rows = {
        id: (f1(predictions[id], ["red"]), exact_match(predictions[id], ["red"])) if id in predictions else (0.0, 0.0)
        for id in ids
    }
    variants = {"a": ["a-1", "a-2"], "b": ["b-1"], "c": ["c"], "d": ["d-1"]}
    worst = [min((rows[id] for id in group), key=lambda row: row[0]) for group in variants.values()]
    result = score_adversarial(data(*ids, answer="red"), predictions)
    assert result.f1 == pytest.approx(25 * sum(row[0] for row in worst))
    assert result.exact_match == pytest.approx(25 * sum(row[1] for row in worst))
    assert (result.clean.total, result.clean.f1) == (3, pytest.approx(sum(rows[id][0] for id in "abc") * 100 / 3))


@pytest.mark.data
@pytest.mark.parametrize(("name", "rows"), [("addsent", 3560), ("addonesent", 1787)])
def test_the_published_sets_have_a_thousand_originals(real_data: Path, name: str, rows: int) -> None:
    dataset = read_squad(real_data / "adversarial" / f"{name}.json.gz")
    truth = {question.id: question.answers[0].text for _, question in dataset.questions()}
    assert len(truth) == rows
    result = score_adversarial(dataset, truth)
    assert (result.total, result.attacked, result.clean.total, result.f1) == (1000, 787, 1000, 100.0)
    attacked_wrong = {id: text if id == original(id) else "" for id, text in truth.items()}
    result = score_adversarial(dataset, attacked_wrong)
    assert (round(result.exact_match, 1), result.clean.exact_match) == (21.3, 100.0)  # 213 have no variant
    assert score(dataset, truth).f1 == 100.0
