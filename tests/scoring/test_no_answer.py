"""SQuAD 2.0's scores against the official script's own steps, written out as loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.scoring.squad import auroc, best_threshold, score_no_answer

rows = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]), st.booleans()),
    min_size=1,
    max_size=30,
)


def official_best(scores: list[float], chances: list[float], has: list[bool]) -> float:
    """``find_best_thresh`` of evaluate-v2.0.py, for every threshold anew."""
    best = 0.0
    for threshold in [-1.0, *chances]:
        total = 0.0
        for score, chance, answered in zip(scores, chances, has, strict=True):
            given_text = chance <= threshold
            total += (score if given_text else 0.0) if answered else float(not given_text)
        best = max(best, total)
    return 100 * best / len(scores)


@given(rows)
def test_the_best_threshold_is_the_best_of_all(cases: list[tuple[float, float, bool]]) -> None:
    scores, chances, has = (list(column) for column in zip(*cases, strict=True))
    best, threshold = best_threshold(np.array(scores), np.array(chances), np.array(has))
    assert math.isclose(best, official_best(scores, chances, has), abs_tol=1e-9)
    at = score_no_answer(scores, scores, chances, has, threshold)
    if best > 100 * (len(has) - sum(has)) / len(has):  # else the best is to answer nothing
        assert math.isclose(at.f1, best, abs_tol=1e-9)


@given(rows)
def test_auroc_counts_pairs(cases: list[tuple[float, float, bool]]) -> None:
    _, chances, has = (list(column) for column in zip(*cases, strict=True))
    pairs = [(a, b) for a, x in zip(chances, has, strict=True) if not x for b, y in zip(chances, has, strict=True) if y]
    found = auroc(chances, [not answered for answered in has])
    if not pairs:
        assert math.isnan(found)
    else:
        assert math.isclose(found, sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs), abs_tol=1e-12)


def test_parts_and_whole() -> None:
    score = score_no_answer([1, 0, 1, 0], [1, 0.5, 1, 0], [0.1, 0.2, 0.9, 0.8], [True, True, True, False])
    assert (score.exact_match, score.f1) == (50.0, 62.5)
    assert (score.has_answer_exact, score.has_answer_f1) == (pytest.approx(100 / 3), 50.0)
    assert (score.no_answer, score.answered) == (100.0, pytest.approx(200 / 3))
    assert score.total == 4
    assert score.auroc == pytest.approx(100 * 2 / 3)
