"""Confidence against outcome."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.scoring.calibration import expected_calibration_error, fit_temperature, log_loss, reliability

UNIT = st.floats(0, 1)


def softmax_confidence(scores: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Probability of each row's highest score."""
    return 1 / np.exp((scores - scores.max(axis=-1, keepdims=True)) / temperature).sum(axis=-1)


def test_bins_hold_their_answers() -> None:
    table = reliability([0.0, 0.05, 0.1, 0.95, 1.0], [0, 1, 0, 1, 1], bins=10)
    assert [b.count for b in table] == [3, 0, 0, 0, 0, 0, 0, 0, 0, 2]  # (low, high], and 0 in the first
    assert (table[0].accuracy, table[9].accuracy) == (pytest.approx(1 / 3), 1.0)
    assert table[0].confidence == pytest.approx(0.05)


def test_error_of_a_worked_example() -> None:
    # two answers at 0.9, one right; one at 0.2, wrong: (2 * |0.9 - 0.5| + 1 * |0.2 - 0|) / 3
    assert expected_calibration_error([0.9, 0.9, 0.2], [1, 0, 0]) == pytest.approx((2 * 0.4 + 0.2) / 3)
    assert expected_calibration_error([], []) == 0.0


@given(st.lists(st.tuples(UNIT, st.booleans()), min_size=1, max_size=50), st.integers(1, 20))
def test_error_agrees_with_a_loop_over_bins(rows: list[tuple[float, bool]], bins: int) -> None:
    total = 0.0
    for k in range(bins):
        inside = [row for row in rows if (np.ceil(row[0] * bins) - 1 == k) or (k == 0 and row[0] == 0)]
        if inside:
            gap = np.mean([c for c, _ in inside]) - np.mean([float(r) for _, r in inside])
            total += len(inside) * abs(gap)
    confidence, correct = zip(*rows, strict=True)
    assert expected_calibration_error(confidence, correct, bins) == pytest.approx(total / len(rows), abs=1e-12)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 confidences for 1 outcomes"):
        expected_calibration_error([0.1, 0.2], [1])


@pytest.mark.parametrize("true", [0.4, 1.0, 2.5])
def test_the_temperature_that_made_the_outcomes_is_found(true: float) -> None:
    random = np.random.default_rng(7)
    scores = random.normal(0, 3, (20_000, 5))
    correct = random.random(20_000) < softmax_confidence(scores, true)
    fitted = fit_temperature(lambda t: softmax_confidence(scores, t), correct)
    assert fitted == pytest.approx(true, rel=0.05)
    assert expected_calibration_error(softmax_confidence(scores, fitted), correct) < 0.02
    if true != 1.0:
        assert expected_calibration_error(softmax_confidence(scores), correct) > 0.05


def test_no_other_temperature_has_a_lower_loss() -> None:
    random = np.random.default_rng(3)
    scores = random.normal(0, 2, (500, 4))
    correct = random.random(500) < 0.6
    fitted = fit_temperature(lambda t: softmax_confidence(scores, t), correct)
    best = log_loss(softmax_confidence(scores, fitted), correct)
    assert all(best <= log_loss(softmax_confidence(scores, t), correct) + 1e-9 for t in np.geomspace(0.05, 20, 500))


def test_absent_candidates_and_certainty_stay_finite() -> None:
    scores = np.array([[5.0, -np.inf, -np.inf], [1.0, 1.0, -np.inf]])
    assert softmax_confidence(scores).tolist() == [1.0, 0.5]
    assert np.isfinite(log_loss([1.0, 0.0], [0, 1]))
    assert np.isfinite(fit_temperature(lambda t: softmax_confidence(scores, t), [0, 1]))
