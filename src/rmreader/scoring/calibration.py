"""Does a confidence mean what it says? Reliability bins, calibration error, and the temperature that corrects it."""

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
    """Equal-width bins of confidence with the accuracy in each: what a reliability plot shows."""
    confidence, correct = _pair(confidence, correct)
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    mean = np.bincount(place, confidence, bins) / np.maximum(count, 1)
    accuracy = np.bincount(place, correct, bins) / np.maximum(count, 1)
    return [Bin(k / bins, (k + 1) / bins, int(count[k]), float(mean[k]), float(accuracy[k])) for k in range(bins)]


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """Mean distance between confidence and accuracy over the bins, weighted by how many answers each holds."""
    table = reliability(confidence, correct, bins)
    total = sum(b.count for b in table)
    return sum(b.count * abs(b.confidence - b.accuracy) for b in table) / total if total else 0.0


def log_loss(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Mean negative log-likelihood of right and wrong under the confidences."""
    confidence, correct = _pair(confidence, correct)
    sure = np.clip(confidence, 1e-12, 1 - 1e-12)
    return float(-np.mean(correct * np.log(sure) + (1 - correct) * np.log1p(-sure)))


def fit_temperature(
    confidence_at: Callable[[float], ArrayLike], correct: ArrayLike, low: float = 0.05, high: float = 20.0
) -> float:
    """The temperature whose confidences ``confidence_at(temperature)`` have the lowest log loss.

    One dimension: a grid over log T finds the valley (the loss need not be convex in T), golden section its floor.
    """

    def loss(log_t: float) -> float:
        return log_loss(confidence_at(float(np.exp(log_t))), correct)

    grid = np.linspace(np.log(low), np.log(high), 41)
    best = int(np.argmin([loss(point) for point in grid]))
    left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    ratio = (np.sqrt(5.0) - 1) / 2
    a, b = right - ratio * (right - left), left + ratio * (right - left)
    loss_a, loss_b = loss(a), loss(b)
    while right - left > 1e-4:
        if loss_a <= loss_b:
            right, b, loss_b = b, a, loss_a
            a = right - ratio * (right - left)
            loss_a = loss(a)
        else:
            left, a, loss_a = a, b, loss_b
            b = left + ratio * (right - left)
            loss_b = loss(b)
    return float(np.exp((left + right) / 2))


def _pair(confidence: ArrayLike, correct: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(confidence, np.float64).ravel(), np.asarray(correct, np.float64).ravel()
    if first.shape != second.shape:
        raise ValueError(f"{first.size} confidences for {second.size} outcomes")
    return first, second
