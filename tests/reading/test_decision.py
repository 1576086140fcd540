"""The decision's fit finds the lowest log loss, whatever the data, with a trace of a pull to the odds as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.reading.decision import fit_decision


def log_loss(x: np.ndarray, y: np.ndarray, scale: float, shift: float) -> float:
    return sum(float(np.logaddexp(0, z) - truth * z) for z, truth in zip(scale * x + shift, y, strict=True))


def pull(scale: float, shift: float) -> float:
    """What keeps the fit of data without overlap, whose lowest loss is at infinity, at finite numbers."""
    return 5e-7 * ((scale - 1) ** 2 + shift**2)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.1, 8),
    st.floats(-6, 6),
    st.floats(0.2, 3),
    st.floats(-5, 5),
    st.integers(20, 300),
)
def test_no_other_scale_and_shift_lose_less(
    seed: int, spread: float, middle: float, scale: float, shift: float, count: int
) -> None:
    draw = np.random.default_rng(seed)
    x = draw.normal(middle, spread, count)
    y = (draw.random(count) < 1 / (1 + np.exp(-(scale * x + shift)))).astype(float)
    y[:2] = 0, 1
    found = fit_decision(x, y)
    least = log_loss(x, y, *found) + pull(*found)
    for _ in range(40):
        other = found + draw.normal(0, 10 ** draw.uniform(-3, 1), 2)
        assert least <= log_loss(x, y, *other) + pull(*other) + 1e-4


def test_data_far_from_where_the_search_begins_are_fitted_too() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(-30, 20, 5000)
    y = (draw.random(5000) < 1 / (1 + np.exp(-(0.98 * x + 30)))).astype(float)
    assert fit_decision(x, y) == pytest.approx((0.98, 30), rel=0.15)
