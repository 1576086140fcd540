"""Is a difference more than noise, and how large is it beside the paper's?

Student's t over independent starts: paired by seed where both sides share seeds, else Welch's. With
three seeds a test by permutation could never be surer than p = 0.25, so a normal spread is assumed.

One rule gives the words, and two questions are kept apart. The sign: is it told, with a chance
below 5 % after Holm's correction? The size: which shares of the paper's gain does the 95 % interval
exclude? More data make an interval shorter. So later words refine earlier ones and do not
contradict them; the tests simulate it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev, variance
from typing import Any

LEVEL = 0.05
SAME = "same sign"
OPPOSITE = "opposite sign"
UNSURE = "sign open"


def _distributions() -> Any:
    """Return Student's and the other distributions, which take a second to load."""
    from scipy import stats

    return stats


@dataclass(frozen=True)
class Difference:
    """A mean difference with its 95 % interval, and the chance of it where there is none."""

    gaps: list[float]  # one per pair; the difference of the means alone where there are no pairs
    mean: float
    low: float
    high: float
    p: float | None  # None of a single seed or start, which tells nothing
    count: int  # pairs or starts; the smaller number of seeds where they are not paired
    error: float = 0.0
    """Standard error of the mean."""
    freedom: float = 0.0
    """Degrees of freedom."""

    @property
    def interval(self) -> str:
        """The interval as it is printed."""
        if self.p is None:
            return "–"
        return f"{self.low:+.2f} to {self.high:+.2f}"

    @property
    def ours(self) -> str:
        """The mean with its interval, as printed."""
        return f"{self.mean:+.2f} ({self.interval})"

    @property
    def chance(self) -> str:
        """p as it is printed."""
        return printed_chance(self.p)

    def share(self, papers: float | None) -> tuple[float, float, float] | None:
        """The mean and the interval as shares of the paper's gain; None where it has none."""
        if not papers or self.p is None:
            return None
        bounds = sorted((self.low / papers, self.high / papers))
        return self.mean / papers, bounds[0], bounds[1]

    def chance_of(self, papers: float) -> float | None:
        """The chance of a mean this far from the paper's gain, if that is the true one."""
        if self.p is None or not self.error:
            return None
        return two_sided((self.mean - papers) / self.error, self.freedom)

    def power(self, papers: float) -> float | None:
        """The chance to see the paper's gain, if that is the true one, with so much data."""
        if self.p is None or not self.error:
            return None
        shift = abs(papers) / self.error
        stats = _distributions()
        edge = stats.t.ppf(1 - LEVEL / 2, self.freedom)
        return float(stats.nct.sf(edge, self.freedom, shift))

    def words(self, papers: float | None, p: float | None = None) -> str:
        """Sign and size in words; ``p`` is the corrected chance, by default the plain one."""
        if self.p is None:
            return "one start tells nothing"
        sign = sign_words(self.mean, papers, self.p if p is None else p)
        if sign == UNSURE and self.p < LEVEL:
            sign = f"{UNSURE} after correction"
        size = size_words(self.share(papers))
        return f"{sign}; {size}" if size else sign


def printed_chance(p: float | None) -> str:
    """A chance as it is printed."""
    if p is None:
        return "–"
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def sign_words(mean: float, papers: float | None, p: float) -> str:
    """Whether the sign is told, and whether it is the paper's."""
    if p >= LEVEL:
        return UNSURE
    if not papers:
        return "higher" if mean > 0 else "lower"
    return SAME if mean * papers > 0 else OPPOSITE


def size_words(share: tuple[float, float, float] | None) -> str:
    """What the 95 % interval of the share of the paper's gain excludes."""
    if share is None:
        return ""
    _, low, high = share
    if high < 0:
        return "excludes any such gain"
    if high < 1:
        return f"excludes more than {high:.0%} of the paper's gain"
    if low > 1:
        return f"excludes less than {low:.0%} of the paper's gain"
    if low > 0:
        return "excludes zero, not the paper's gain"
    return "excludes neither zero nor the paper's gain"


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Values with their mean and standard deviation, as data; None of too few."""
    mean = fmean(values) if values else None
    spread = stdev(values) if len(values) > 1 else None
    return {"mean": mean, "spread": spread, "values": list(values)}


def difference(first: Mapping[Any, float], second: Mapping[Any, float]) -> Difference | None:
    """The first less the second, both by seed; None where either has nothing."""
    if not first or not second:
        return None
    shared = sorted(first.keys() & second.keys())
    if len(shared) > 1 or first.keys() == second.keys():
        return one_sample([first[seed] - second[seed] for seed in shared])
    return _welch(list(first.values()), list(second.values()))


def over_starts(gaps: Mapping[Hashable, Iterable[float]]) -> Difference:
    """Gaps by the start they share: starts are random effects, so each counts once, by its mean."""
    return one_sample([fmean(values) for values in gaps.values()])


def by_start(gaps: Iterable[tuple[Hashable, float]]) -> dict[Hashable, list[float]]:
    """Gaps gathered under the start that each came from."""
    starts: defaultdict[Hashable, list[float]] = defaultdict(list)
    for start, gap in gaps:
        starts[start].append(gap)
    return dict(starts)


def one_sample(gaps: list[float]) -> Difference:
    """The mean of independent gaps, by Student's t."""
    count = len(gaps)
    error = sqrt(variance(gaps) / count) if count > 1 else 0.0
    return _difference(gaps, fmean(gaps), error, count - 1, count)


def _welch(first: list[float], second: list[float]) -> Difference:
    """The difference of two means that share no seed."""
    mean = fmean(first) - fmean(second)
    count = min(len(first), len(second))
    if count < 2:
        return _difference([mean], mean, 0.0, 0, count)
    parts = [variance(side) / len(side) for side in (first, second)]
    error = sqrt(sum(parts))
    freedom = 0.0
    if error:
        # Welch and Satterthwaite's degrees of freedom.
        spread = parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1)
        freedom = sum(parts) ** 2 / spread
    return _difference([mean], mean, error, freedom, count)


def _difference(
    gaps: list[float],
    mean: float,
    error: float,
    freedom: float,
    count: int,
) -> Difference:
    """A difference with its interval and chance."""
    if count < 2:
        return Difference(gaps, mean, -inf, inf, None, count)
    if not error:  # no spread at all
        return Difference(gaps, mean, mean, mean, float(mean == 0), count)
    reach = float(_distributions().t.ppf(1 - LEVEL / 2, freedom)) * error
    p = two_sided(mean / error, freedom)
    return Difference(gaps, mean, mean - reach, mean + reach, p, count, error, freedom)


def two_sided(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|) of Student's t."""
    return float(2 * _distributions().t.sf(abs(t), freedom))


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """Chances corrected for their number by Holm's method; None stays None."""
    known = [(p, place) for place, p in enumerate(chances) if p is not None]
    corrected: list[float | None] = [None] * len(chances)
    largest = 0.0
    for rank, (p, place) in enumerate(sorted(known)):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        corrected[place] = largest
    return corrected
