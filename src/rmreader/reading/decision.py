"""Whether there is an answer at all: the network's log-odds as a chance that means what it says,
and where to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmreader.core.errors import user_error_on
from rmreader.readers.folder import MANIFEST, Folder


@dataclass(frozen=True)
class Decision:
    """p(none) = σ(scale·log-odds + shift), fitted on held-out articles; above the threshold no
    answer is given."""

    scale: float = 1.0
    shift: float = 0.0
    threshold: float = 0.5

    def chance(self, log_odds: float) -> float:
        """The chance that the passage holds no answer."""
        return 1 / (1 + math.exp(-min(500.0, max(-500.0, self.scale * log_odds + self.shift))))

    @staticmethod
    def of(folder: Folder) -> Decision | None:
        """What a reader decides by; None where its network has no such logit."""
        if not folder.recipe.network.no_answer:
            return None

        sentence = (
            f"{folder.path / MANIFEST}: damaged (no_answer is not a scale above 0, a shift and a "
            "threshold); restore the folder, or fit it anew: rmreader calibrate."
        )
        with user_error_on(sentence, TypeError, ValueError, AttributeError):
            kept = Decision(
                **{name: float(value) for name, value in folder.about.get("no_answer", {}).items()}
            )
            if (
                not all(map(math.isfinite, (kept.scale, kept.shift, kept.threshold)))
                or kept.scale <= 0
            ):
                raise ValueError

        return kept

    @staticmethod
    def mean(members: Sequence[Decision | None]) -> Decision | None:
        """What an ensemble decides by, of those members that can tell; None where none can."""
        able = [member for member in members if member is not None]
        columns = [(member.scale, member.shift, member.threshold) for member in able]
        return Decision(*map(float, np.mean(columns, axis=0))) if able else None


def fit_decision(log_odds: ArrayLike, none: ArrayLike) -> tuple[float, float]:
    """Scale and shift with the lowest log loss: logistic regression of one variable (Platt), by
    Newton's steps."""
    x = np.asarray(log_odds, np.float64)
    y = np.asarray(none, np.float64)
    features = np.stack([x, np.ones_like(x)], 1)
    as_it_is = np.array([1.0, 0.0])  # a little towards it, for data without overlap

    def loss(beta: NDArray[np.float64]) -> float:
        z = features @ beta
        return float((np.logaddexp(0, z) - y * z).sum() + 5e-7 * ((beta - as_it_is) ** 2).sum())

    beta = as_it_is
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(features @ beta, -500, 500)))
        slope = features.T @ (p - y) + 1e-6 * (beta - as_it_is)
        curve: NDArray[np.float64] = (
            features * (p * (1 - p))[:, None]
        ).T @ features + 1e-6 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        while np.abs(step).max() > 1e-10 and not loss(beta - step) < loss(
            beta
        ):  # it may go too far
            step = step / 2

        if np.abs(step).max() <= 1e-10:
            break

        beta = beta - step

    return float(beta[0]), float(beta[1])
