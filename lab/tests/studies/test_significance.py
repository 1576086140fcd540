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
    inside = 0.0
    whole = 0.0
    bound = math.atan(abs(t) / math.sqrt(freedom))
    width = math.pi / 2 / steps
    for k in range(steps):
        theta = (k + 0.5) * width
        strip = math.cos(theta) ** (freedom - 1) * width
        whole += strip
        if theta < bound:
            inside += strip
    return 1 - inside / whole


@pytest.mark.parametrize(
    ("t", "freedom"),
    [
        (0.5, 1),
        (1.7, 2),
        (4.0, 3.4),
        (-2.2, 11),
        (3.1, 40.5),
    ],
)
def test_the_chance_is_the_area_of_both_tails(t: float, freedom: float) -> None:
    assert two_sided(t, freedom) == pytest.approx(slow_chance(t, freedom), abs=2e-5)


@pytest.mark.parametrize(
    ("t", "freedom"),
    [
        (12.706, 1),
        (4.303, 2),
        (3.182, 3),
        (2.228, 10),
        (1.962, 1000),
    ],
)
def test_printed_tables_of_t_agree(t: float, freedom: int) -> None:
    assert two_sided(t, freedom) == pytest.approx(0.05, abs=2e-4)


def test_pairs_are_compared_seed_by_seed() -> None:
    first = {
        1: 80.3,
        2: 81.9,
        3: 79.2,
        9: 0.0,
    }
    second = {
        3: 78.8,
        2: 81.6,
        1: 79.8,
    }
    found = difference(first, second)
    gaps = [
        80.3 - 79.8,
        81.9 - 81.6,
        79.2 - 78.8,
    ]
    mean = sum(gaps) / 3
    squares = sum((gap - mean) ** 2 for gap in gaps)
    error = math.sqrt(squares / 2 / 3)
    assert found is not None
    assert found.gaps == pytest.approx(gaps)
    assert found.mean == pytest.approx(mean)
    assert found.count == 3
    assert found.p == pytest.approx(slow_chance(mean / error, 2), abs=2e-5)
    reach = 4.3027 * error
    assert found.low == pytest.approx(mean - reach, rel=1e-4)
    assert found.high == pytest.approx(mean + reach, rel=1e-4)


def test_without_shared_seeds_it_is_welchs_test() -> None:
    first = {
        1: 1.0,
        2: 1.4,
        3: 0.9,
    }
    second = {
        11: 0.2,
        12: 0.9,
        13: 0.1,
        14: 0.5,
    }
    means = []
    parts = []
    for side in (list(first.values()), list(second.values())):
        mean = sum(side) / len(side)
        squares = sum((x - mean) ** 2 for x in side)
        means.append(mean)
        parts.append(squares / (len(side) - 1) / len(side))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    found = difference(first, second)
    assert found is not None
    assert found.count == 3
    assert found.mean == pytest.approx(means[0] - means[1])
    t = found.mean / math.sqrt(sum(parts))
    assert found.p == pytest.approx(slow_chance(t, freedom), abs=2e-5)


def test_a_single_seed_tells_nothing_and_none_is_no_difference() -> None:
    found = difference(
        {1: 5.0},
        {1: 3.0},
    )
    assert found is not None
    assert found.mean == 2.0
    assert found.p is None
    assert found.interval == "–"
    assert found.chance == "–"
    assert found.words(1.0) == "one start tells nothing"
    assert difference({}, {1: 3.0}) is None


def test_equal_gaps_have_no_spread() -> None:
    found = difference(
        {1: 2.0, 2: 3.0},
        {1: 1.0, 2: 2.0},
    )
    assert found is not None
    assert found.low == 1.0
    assert found.high == 1.0
    assert found.p == 0.0
    same = difference({1: 2.0, 2: 3.0}, {1: 2.0, 2: 3.0})
    assert same is not None
    assert same.p == 1.0


def test_of_twenty_true_nothings_about_one_looks_like_something() -> None:
    generator = random.Random(3)
    hits = 0
    for _ in range(2000):
        first = {seed: generator.gauss(0, 1) for seed in range(3)}
        second = {seed: generator.gauss(0, 1) for seed in range(3)}
        found = difference(first, second)
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
    expected = (
        found.mean / -0.5,
        found.high / -0.5,
        found.low / -0.5,
    )
    assert share == pytest.approx(expected)
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
            for _ in range(3):
                gap = 0.3 + shift + generator.gauss(0, 0.08)
                gaps.append((start, gap))
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
    if found.high < papers / 2:
        return "does not hold"
    return "cannot be told"


def test_words_do_not_contradict_each_other_as_data_grow() -> None:
    """The true effect is a third of the paper's. Pairs are added; the words are read each time."""
    papers = 0.5
    spread = 0.23
    sizes = (4, 6, 8, 12, 20, 40, 80)
    generator = random.Random(7)
    draws = 1000
    contradictions = 0
    old_contradictions = 0
    told_in_the_end = 0
    for _ in range(draws):
        gaps = [generator.gauss(papers / 3, spread) for _ in range(sizes[-1])]
        found = [one_sample(gaps[:size]) for size in sizes]
        words = [each.words(papers) for each in found]
        old_words = [old_verdict(each, papers) for each in found]
        contradictions += any(contradict(*pair) for pair in pairwise(words))
        old_contradictions += ("does not hold", "holds") in pairwise(old_words)
        told_in_the_end += words[-1].startswith(SAME)
    assert contradictions <= 0.05 * draws
    assert old_contradictions > 0.2 * draws  # so the simulation can see what it looks for
    assert told_in_the_end > 0.99 * draws


def contradict(first: str, second: str) -> bool:
    """Whether two statements cannot both be true."""
    both = f"{first} and {second}"
    if SAME in both and OPPOSITE in both:
        return True
    is_gain = SAME in both or "excludes zero" in both
    if is_gain and "excludes any such gain" in both:
        return True
    return "excludes more than" in both and "excludes less than" in both
