"""The table of KL divergences, against loops over columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.studies.divergences import deficiency, divergence, redundancy, spread
from rmreader.scoring.attention import attention, log_attention


def logits(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(
        0,
        2,
        (3, 5),
    )


def column(x: NDArray[np.float64], j: int) -> NDArray[np.float64]:
    values = np.exp(x[:, j])
    return np.asarray(values / values.sum())


def kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    total = 0.0
    for a, b in zip(
        p,
        q,
        strict=True,
    ):
        total += a * np.log(a / b)
    return float(total)


def test_redundancy_is_the_mean_divergence_of_adjacent_rounds() -> None:
    rounds = [logits(1), logits(2), logits(3)]
    found = redundancy(rounds)
    assert len(found) == 2
    for value, (first, second) in zip(
        found,
        pairwise(rounds),
        strict=True,
    ):
        columns = []
        for j in range(5):
            columns.append(kl(column(first, j), column(second, j)))
        assert value == pytest.approx(np.mean(columns), abs=1e-12)


def test_deficiency_is_the_divergence_from_the_mean_of_the_members_to_each() -> None:
    members = [logits(4), logits(5), logits(6)]
    means = []
    for j in range(5):
        columns = [column(member, j) for member in members]
        means.append(np.mean(columns, axis=0))
    for member, value in zip(
        members,
        deficiency(members),
        strict=True,
    ):
        columns = []
        for j, mean in enumerate(means):
            columns.append(kl(mean, column(member, j)))
        assert value == pytest.approx(np.mean(columns), abs=1e-12)


def test_attention_runs_over_rows_or_over_columns() -> None:
    x = logits(7)
    columns = [column(x, j) for j in range(5)]
    np.testing.assert_allclose(
        attention(x),
        np.stack(columns, axis=1),
    )
    np.testing.assert_allclose(
        attention(x, 1),
        attention(x.T).T,
    )


def test_equal_attentions_have_no_divergence_and_a_lone_member_no_deficiency() -> None:
    one = logits(1)
    np.testing.assert_allclose(
        redundancy([one, one + 3.0]),
        0,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        deficiency([one]),
        0,
        atol=1e-12,
    )


def test_a_masked_diagonal_and_extreme_logits_stay_finite() -> None:
    b = np.random.default_rng(1).normal(size=(4, 4))
    # B with its diagonal left out of the softmax.
    np.fill_diagonal(b, -np.inf)
    far = np.where(
        np.isinf(b),
        b,
        b * 400,
    )
    (value,) = redundancy([b, far])
    assert np.isfinite(value)
    assert value > 0
    assert divergence(log_attention(b), log_attention(b)) == 0.0


def test_spread_is_mean_and_deviation_over_examples() -> None:
    assert spread([1.0, 3.0]) == (2.0, 1.0)
    assert spread([]) == (0.0, 0.0)
