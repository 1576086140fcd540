"""Student's t over seeds, against loops; and the rule that turns intervals into words."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from lab.studies.significance import (
    OPPOSITE,
    SAME,
    UNSURE,
    Difference,
    by_start,
    difference,
    holm,
    one_sample,
    over_starts,
    two_sided,
)


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
    assert two_sided(t, freedom) == pytest.approx(slow_chance(t, freedom), abs=2e-5)


@pytest.mark.parametrize(
    ("t", "freedom"), [(12.706, 1), (4.303, 2), (3.182, 3), (2.228, 10), (1.962, 1000)]
)
def test_printed_tables_of_t_agree(t: float, freedom: int) -> None:
    assert two_sided(t, freedom) == pytest.approx(0.05, abs=2e-4)


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
    assert found.words(1.0) == "one start tells nothing"
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
        ([0.5, 0.6, 0.55], 0.5, "same sign; excludes zero, not the paper's gain"),
        ([0.1, 0.12, 0.11], 0.9, "same sign; excludes more than 15% of the paper's gain"),
        ([0.01, -0.02, 0.0], 0.9, "sign open; excludes more than 4% of the paper's gain"),
        ([-0.5, -0.6, -0.55], 0.5, "opposite sign; excludes any such gain"),
        ([0.5, 0.6, 0.55], -0.5, "opposite sign; excludes any such gain"),
        ([-0.5, -0.6, -0.55], -0.1, "same sign; excludes less than 426% of the paper's gain"),
        ([0.9, -0.4, 0.3], 0.5, "sign open; excludes neither zero nor the paper's gain"),
        ([0.5, 0.6, 0.55], None, "higher"),
        ([-0.5, -0.6, -0.55], 0.0, "lower"),
    ],
)
def test_words_tell_the_sign_and_what_is_excluded(
    gaps: list[float], papers: float | None, expected: str
) -> None:
    assert one_sample(gaps).words(papers) == expected


def test_a_sign_that_the_correction_takes_away_is_open() -> None:
    found = one_sample([0.5, 0.6, 0.55])
    assert found.words(0.5, p=0.2).startswith(UNSURE)


def test_shares_and_the_chance_of_the_papers_gain() -> None:
    found = one_sample([0.08, 0.3, -0.1, 0.2, 0.05, -0.2, 0.15, 0.1])
    share = found.share(-0.5)
    assert share == pytest.approx((found.mean / -0.5, found.high / -0.5, found.low / -0.5))
    assert found.chance_of(found.mean) == pytest.approx(1.0)
    assert found.chance_of(found.high) == pytest.approx(0.05)
    power = found.power(0.5)
    assert power is not None
    assert power > 0.99
    assert found.power(0.0) == pytest.approx(0.025, abs=1e-6)


def test_seeds_of_one_start_count_once() -> None:
    gaps = by_start([("a", 0.2), ("a", 0.4), ("b", 0.1), ("b", 0.1)])
    found = over_starts(gaps)
    assert found.gaps == pytest.approx([0.3, 0.1])
    assert found.count == 2
    assert over_starts({"a": [0.2, 0.4]}).p is None


def test_starts_as_random_effects_cover_the_truth_and_seeds_as_pairs_do_not() -> None:
    """Two starts that differ by chance, three seeds each; the true gain is 0.3."""
    generator = random.Random(5)
    inside = {"starts": 0, "seeds": 0}
    for _ in range(1000):
        gaps = []
        for start in range(2):
            shift = generator.gauss(0, 0.13)
            gaps += [(start, 0.3 + shift + generator.gauss(0, 0.08)) for _ in range(3)]
        random_effects = over_starts(by_start(gaps))
        pairs = one_sample([gap for _, gap in gaps])
        inside["starts"] += random_effects.low < 0.3 < random_effects.high
        inside["seeds"] += pairs.low < 0.3 < pairs.high
    assert inside["starts"] > 930
    assert inside["seeds"] < 800


def test_holm_corrects_step_by_step() -> None:
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def old_verdict(found: Difference, papers: float) -> str:
    """The rule that was used before, which took its words back as data grew."""
    if found.low > 0:
        return "holds"
    return "does not hold" if found.high < papers / 2 else "cannot be told"


def test_words_do_not_contradict_each_other_as_data_grow() -> None:
    """The true effect is a third of the paper's. Pairs are added; the words are read each time."""
    papers, spread = 0.5, 0.23
    sizes = (4, 6, 8, 12, 20, 40, 80)
    generator = random.Random(7)
    draws = 1000
    contradictions = old_contradictions = told_in_the_end = 0
    for _ in range(draws):
        gaps = [generator.gauss(papers / 3, spread) for _ in range(sizes[-1])]
        found = [one_sample(gaps[:size]) for size in sizes]
        contradictions += any(
            contradict(first.words(papers), second.words(papers))
            for first, second in pairwise(found)
        )
        old_contradictions += any(
            (old_verdict(first, papers), old_verdict(second, papers)) == ("does not hold", "holds")
            for first, second in pairwise(found)
        )
        told_in_the_end += found[-1].words(papers).startswith(SAME)
    assert contradictions <= 0.05 * draws
    assert old_contradictions > 0.2 * draws  # so the simulation can see what it looks for
    assert told_in_the_end > 0.99 * draws


def contradict(first: str, second: str) -> bool:
    """Whether two statements cannot both be true."""
    both = (first, second)
    signs = any(SAME in words for words in both) and any(OPPOSITE in words for words in both)
    nothing = any("excludes any such gain" in words for words in both)
    gain = any(SAME in words or "excludes zero" in words for words in both)
    smaller = any("excludes more than" in words for words in both)
    larger = any("excludes less than" in words for words in both)
    return signs or (nothing and gain) or (smaller and larger)
