"""The table of KL divergences, against loops over columns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rmreader.scoring.attention import deficiency, divergence, log_attention, redundancy, spread

ROWS, COLUMNS = np.array([3, 2]), np.array([4, 5])


def logits(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, 2, (2, 3, 5))


def column(x: NDArray[np.float64], example: int, j: int) -> NDArray[np.float64]:
    values = np.exp(x[example, : ROWS[example], j])
    return np.asarray(values / values.sum())


def kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))


def test_redundancy_is_the_mean_divergence_of_adjacent_rounds() -> None:
    rounds = [logits(1), logits(2), logits(3)]
    found = redundancy(rounds, ROWS, COLUMNS)
    assert len(found) == 2
    for values, (first, second) in zip(found, [(0, 1), (1, 2)], strict=True):
        for example in range(2):
            pairs = [
                kl(column(rounds[first], example, j), column(rounds[second], example, j))
                for j in range(COLUMNS[example])
            ]
            assert values[example] == pytest.approx(np.mean(pairs), abs=1e-12)


def test_deficiency_is_the_divergence_from_the_mean_of_the_members_to_each() -> None:
    members = [logits(4), logits(5), logits(6)]
    found = deficiency(members, ROWS, COLUMNS)
    for member, values in zip(members, found, strict=True):
        for example in range(2):
            pairs = []
            for j in range(COLUMNS[example]):
                mean = np.mean([column(other, example, j) for other in members], axis=0)
                pairs.append(kl(mean, column(member, example, j)))
            assert values[example] == pytest.approx(np.mean(pairs), abs=1e-12)


def test_padding_changes_nothing() -> None:
    rounds = [logits(1), logits(2)]
    before = redundancy(rounds, ROWS, COLUMNS)
    for x in rounds:
        x[1, 2:] = 1e4  # a padded question row
        x[0, :, 4] = np.nan  # a padded context column
    after = redundancy(rounds, ROWS, COLUMNS)
    np.testing.assert_allclose(after, before)


def test_equal_attentions_have_no_divergence_and_a_lone_member_no_deficiency() -> None:
    np.testing.assert_allclose(redundancy([logits(1), logits(1) + 3.0], ROWS, COLUMNS), 0, atol=1e-12)
    np.testing.assert_allclose(deficiency([logits(1)], ROWS, COLUMNS), 0, atol=1e-12)


def test_a_masked_diagonal_and_extreme_logits_stay_finite() -> None:
    b = np.random.default_rng(1).normal(size=(1, 4, 4))
    b[0, np.arange(4), np.arange(4)] = -np.inf  # B with its diagonal left out of the softmax
    far = np.where(np.isinf(b), b, b * 400)
    values = redundancy([b, far], [4], [4])[0]
    assert np.isfinite(values).all()
    assert values[0] > 0
    assert divergence(log_attention(b, [4]), log_attention(b, [4]), [4])[0] == 0.0


def test_spread_is_mean_and_deviation_over_examples() -> None:
    result = spread([1.0, 3.0])
    assert (result.mean, result.deviation, result.count) == (2.0, 1.0, 2)
    assert spread([]).count == 0
