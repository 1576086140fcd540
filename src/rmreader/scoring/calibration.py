"""Does a confidence mean what it says?

Reliability bins, calibration error, and the temperature that corrects it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Bin:
    """Answers whose confidence lies in (low, high]; the first bin takes 0 too."""

    low: float
    high: float
    count: int
    confidence: float  # their mean confidence; 0 where the bin is empty
    accuracy: float  # the share of them that is right


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> list[Bin]:
    """Return equal-width bins of confidence with the accuracy in each, as a plot shows them."""
    confidence, correct = _same_length(confidence, correct)
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    mean = np.bincount(place, confidence, bins) / np.maximum(count, 1)
    accuracy = np.bincount(place, correct, bins) / np.maximum(count, 1)
    table = []
    for k in range(bins):
        table.append(
            Bin(
                low=k / bins,
                high=(k + 1) / bins,
                count=int(count[k]),
                confidence=float(mean[k]),
                accuracy=float(accuracy[k]),
            )
        )
    return table


def expected_calibration_error(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 10,
) -> float:
    """Return the mean distance between confidence and accuracy over the bins.

    Each bin counts by how many answers it holds.
    """
    table = reliability(confidence, correct, bins)
    total = sum(row.count for row in table)
    if not total:
        return 0.0
    return sum(row.count * abs(row.confidence - row.accuracy) for row in table) / total


def log_loss(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Return the mean negative log-likelihood of right and wrong under the confidences."""
    confidence, correct = _same_length(confidence, correct)
    sure = np.clip(confidence, 1e-12, 1 - 1e-12)
    return float(-np.mean(correct * np.log(sure) + (1 - correct) * np.log1p(-sure)))


def fit_temperature(
    confidence_at: Callable[[float], ArrayLike],
    correct: ArrayLike,
    low: float = 0.05,
    high: float = 20.0,
) -> float:
    """Return the temperature whose confidences have the lowest log loss.

    ``confidence_at(temperature)`` gives them. One dimension: a grid over log T finds the valley
    (the loss need not be convex in T), golden section its floor.
    """

    def loss(log_t: float) -> float:
        return log_loss(confidence_at(float(np.exp(log_t))), correct)

    grid = np.linspace(np.log(low), np.log(high), 41)
    best = int(np.argmin([loss(point) for point in grid]))
    left = float(grid[max(best - 1, 0)])
    right = float(grid[min(best + 1, len(grid) - 1)])
    ratio = (np.sqrt(5.0) - 1) / 2
    a = right - ratio * (right - left)
    b = left + ratio * (right - left)
    loss_a = loss(a)
    loss_b = loss(b)
    while right - left > 1e-4:
        if loss_a <= loss_b:
            # The valley is left of b, which becomes the right end; a takes b's place.
            right, b, loss_b = b, a, loss_a
            a = right - ratio * (right - left)
            loss_a = loss(a)
        else:
            left, a, loss_a = a, b, loss_b
            b = left + ratio * (right - left)
            loss_b = loss(b)
    return float(np.exp((left + right) / 2))


def _same_length(
    confidence: ArrayLike,
    correct: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = np.asarray(confidence, np.float64).ravel()
    second = np.asarray(correct, np.float64).ravel()
    if first.shape != second.shape:
        raise ValueError(f"{first.size} confidences for {second.size} outcomes")
    return first, second
