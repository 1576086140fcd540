"""Student's t over seeds, against loops; and what a verdict says of an interval."""

from __future__ import annotations

import math
import random

import pytest

from lab.studies.significance import FAILS, HOLDS, OPEN, chance, difference, verdict


def slow_chance(t: float, freedom: float, steps: int = 200_000) -> float:
    """Both tails of Student's density, summed strip by strip in θ, with x = √ν·tan θ."""
    inside = whole = 0.0
    bound, width = math.atan(abs(t) / math.sqrt(freedom)), math.pi / 2 / steps
    for k in range(steps):
        theta = (k + 0.5) * width
        strip = math.cos(theta) ** (freedom - 1) * width
        whole += strip
        inside += strip if theta < bound else 0.0
    return 1 - inside / whole


@pytest.mark.parametrize(
    ("t", "freedom"), [(0.5, 1), (1.7, 2), (4.0, 3.4), (-2.2, 11), (3.1, 40.5)]
)
def test_the_chance_is_the_area_of_both_tails(t: float, freedom: float) -> None:
    assert chance(t, freedom) == pytest.approx(slow_chance(t, freedom), abs=2e-5)


@pytest.mark.parametrize(
    ("t", "freedom"), [(12.706, 1), (4.303, 2), (3.182, 3), (2.228, 10), (1.962, 1000)]
)
def test_printed_tables_of_t_agree(t: float, freedom: int) -> None:
    assert chance(t, freedom) == pytest.approx(0.05, abs=2e-4)


def test_pairs_are_compared_seed_by_seed() -> None:
    first, second = {1: 80.3, 2: 81.9, 3: 79.2, 9: 0.0}, {3: 78.8, 2: 81.6, 1: 79.8}
    found = difference(first, second)
    gaps = [80.3 - 79.8, 81.9 - 81.6, 79.2 - 78.8]
    mean = sum(gaps) / 3
    error = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 2 / 3)
    assert found is not None
    assert found.gaps == pytest.approx(gaps)
    assert (found.mean, found.count) == (pytest.approx(mean), 3)
    assert found.p == pytest.approx(slow_chance(mean / error, 2), abs=2e-5)
    assert (found.low, found.high) == pytest.approx(
        (mean - 4.3027 * error, mean + 4.3027 * error), rel=1e-4
    )


def test_without_shared_seeds_it_is_welchs_test() -> None:
    first, second = {1: 1.0, 2: 1.4, 3: 0.9}, {11: 0.2, 12: 0.9, 13: 0.1, 14: 0.5}
    a, b = list(first.values()), list(second.values())
    means, parts = [], []
    for side in (a, b):
        mean = sum(side) / len(side)
        means.append(mean)
        parts.append(sum((x - mean) ** 2 for x in side) / (len(side) - 1) / len(side))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    found = difference(first, second)
    assert found is not None
    assert found.count == 3
    assert found.mean == pytest.approx(means[0] - means[1])
    assert found.p == pytest.approx(
        slow_chance(found.mean / math.sqrt(sum(parts)), freedom), abs=2e-5
    )


def test_a_single_seed_tells_nothing_and_none_is_no_difference() -> None:
    found = difference({1: 5.0}, {1: 3.0})
    assert found is not None
    assert (found.mean, found.p, found.interval, found.chance) == (2.0, None, "–", "–")
    assert verdict(found, 1.0) == verdict(None, 1.0) == OPEN
    assert difference({}, {1: 3.0}) is None


def test_equal_gaps_have_no_spread() -> None:
    found = difference({1: 2.0, 2: 3.0}, {1: 1.0, 2: 2.0})
    assert found is not None
    assert (found.low, found.high, found.p) == (1.0, 1.0, 0.0)
    same = difference({1: 2.0, 2: 3.0}, {1: 2.0, 2: 3.0})
    assert same is not None
    assert same.p == 1.0


def test_of_twenty_true_nothings_about_one_looks_like_something() -> None:
    generator = random.Random(3)
    hits = 0
    for _ in range(2000):
        sides = [{seed: generator.gauss(0, 1) for seed in range(3)} for _ in range(2)]
        found = difference(*sides)
        assert found is not None
        assert found.p is not None
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        hits += found.p < 0.05
    assert 60 < hits < 140


@pytest.mark.parametrize(
    ("gaps", "papers", "expected"),
    [
        ([0.5, 0.6, 0.55], 0.5, HOLDS),
        ([0.1, 0.12, 0.11], 0.9, HOLDS),  # smaller than the paper's, but there
        ([0.01, -0.02, 0.0], 0.9, FAILS),  # nothing, and surely not half of the paper's
        ([-0.5, -0.6, -0.55], 0.5, FAILS),
        ([0.9, -0.4, 0.3], 0.5, OPEN),
        ([0.01, -0.02, 0.0], 0.02, OPEN),  # the paper's gain is within the noise
    ],
)
def test_a_verdict_needs_an_interval_that_leaves_no_doubt(
    gaps: list[float], papers: float, expected: str
) -> None:
    found = difference(dict(enumerate(gaps)), dict.fromkeys(range(3), 0.0))
    assert verdict(found, papers) == expected


def test_a_difference_is_said_beside_the_papers() -> None:
    three = {seed: 80 + seed / 10 for seed in (1, 2, 3)}
    lower = difference({seed: value - 1 - seed / 100 for seed, value in three.items()}, three)
    even = difference({1: 80.2, 2: 80.1, 3: 80.3}, three)
    alone = difference({1: 80.0}, {1: 81.0})
    assert lower is not None
    assert even is not None
    assert alone is not None
    assert [lower.said(papers) for papers in (-0.5, 0.5, None)] == [
        "lower, as in the paper",
        "lower; in the paper higher",
        "lower",
    ]
    assert even.said(0.0) == "no clear difference, as in the paper"
    assert even.said(-0.5) == "no clear difference; in the paper lower"
    assert alone.said(-0.5) == "one seed tells nothing; in the paper lower"
