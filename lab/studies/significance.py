"""Is a difference more than the noise of seeds? Student's t, paired by seed where both sides share
seeds, else Welch's.

With three seeds a test by permutation could never be surer than p = 0.25, so a normal spread over
seeds is assumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import atan, exp, inf, lgamma, pi, sqrt
from statistics import fmean, stdev, variance
from typing import Any

import numpy as np

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
LEVEL = 0.05
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class Difference:
    """A mean difference with its 95 % interval, and the chance of one as large where there is none."""

    gaps: list[
        float
    ]  # one for each pair; the difference of the means alone where there are no pairs
    mean: float
    low: float
    high: float
    p: float | None  # None of a single seed, which tells nothing
    count: int  # pairs, or the smaller number of seeds where they are not paired

    @property
    def interval(self) -> str:
        """The interval as it is printed."""
        return "–" if self.p is None else f"{self.low:+.2f} to {self.high:+.2f}"

    @property
    def ours(self) -> str:
        """The mean with its interval, as printed."""
        return f"{self.mean:+.2f} ({self.interval})"

    @property
    def chance(self) -> str:
        """p as it is printed."""
        return "–" if self.p is None else f"p = {self.p:.3f}" if self.p >= 0.001 else "p < 0.001"

    def said(self, papers: float | None) -> str:
        """The difference in words, beside the paper's."""
        seen = "higher" if self.low > 0 else "lower" if self.high < 0 else "no clear difference"
        seen = "one seed tells nothing" if self.p is None else seen
        if papers is None:
            return seen
        claimed = "higher" if papers > 0 else "lower" if papers < 0 else "no clear difference"
        return f"{seen}, as in the paper" if seen == claimed else f"{seen}; in the paper {claimed}"


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Values with their mean and standard deviation, as data; None of too few."""
    mean, spread = fmean(values) if values else None, stdev(values) if len(values) > 1 else None
    return {"mean": mean, "spread": spread, "values": list(values)}


def difference(first: Mapping[Any, float], second: Mapping[Any, float]) -> Difference | None:
    """The first less the second, both by seed; None where either has nothing."""
    if not first or not second:
        return None
    shared = sorted(first.keys() & second.keys())
    if len(shared) > 1 or first.keys() == second.keys():
        gaps = [first[seed] - second[seed] for seed in shared]
        parts, sizes = [_error(gaps)], [len(gaps)]
    else:
        sides = list(first.values()), list(second.values())
        gaps = [fmean(sides[0]) - fmean(sides[1])]
        parts, sizes = [_error(side) for side in sides], [len(side) for side in sides]
    middle, error, count = fmean(gaps), sqrt(sum(parts)), min(sizes)
    if count < 2:
        return Difference(gaps, middle, -inf, inf, None, count)
    if not error:  # no spread at all
        return Difference(gaps, middle, middle, middle, float(middle == 0), count)
    # Welch and Satterthwaite's degrees of freedom; n − 1 of pairs
    freedom = sum(parts) ** 2 / sum(
        part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True)
    )
    reach = _quantile(freedom) * error
    return Difference(
        gaps, middle, middle - reach, middle + reach, chance(middle / error, freedom), count
    )


def _error(values: list[float]) -> float:
    """Squared standard error of the mean."""
    return variance(values) / len(values) if len(values) > 1 else 0.0


def chance(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|) of Student's t: with x = √ν·tan θ the density is cos^(ν−1) θ, integrated by
    Gauss and Legendre."""
    whole = sqrt(pi) / 2 * exp(lgamma(freedom / 2) - lgamma((freedom + 1) / 2))  # from 0 to π/2
    half = atan(abs(t) / sqrt(freedom)) / 2
    inside = half * float(_WEIGHTS @ np.cos(half * (_NODES + 1)) ** (freedom - 1))
    return min(1.0, max(0.0, 1 - inside / whole))


def _quantile(freedom: float) -> float:
    """t with a chance of 5 %, by bisection."""
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle, freedom) > LEVEL else (low, middle)
    return high


def verdict(found: Difference | None, papers: float) -> str:
    """Whether a claimed gain holds: it does where the interval is above 0; it does not where the
    interval reaches 0 and ends below half of the paper's gain; else more seeds are needed."""
    if found is None or found.p is None:
        return OPEN
    if found.low > 0:
        return HOLDS
    return FAILS if found.high < max(papers / 2, 0) else OPEN
