"""The learning rate and the weight of the moving average, as pure functions of where a run is."""

import math
from dataclasses import dataclass

from rmreader.core.recipe import Training


def rate_at(training: Training, base: float, step: int, total: int, halvings: int) -> float:
    """The learning rate of step ``step`` (from 0) of ``total``, for parameters whose initial rate
    is ``base``."""
    rate = base * min(1.0, (step + 1) / max(1, training.warmup))
    if training.schedule == "anneal":
        return rate * 0.5 * (1 + math.cos(math.pi * min(1.0, step / max(1, total))))
    return rate * 0.5**halvings if training.schedule == "halve" else rate


def average_weight(decay: float, step: int) -> float:
    """How far the moving average moves towards the weights after step ``step``: faster while it is
    young."""
    return 1.0 - min(decay, (1 + step) / (10 + step))


@dataclass(frozen=True)
class Selection:
    """What the evaluations decided so far."""

    best: float = -1.0  # best selection F1
    best_step: int = -1  # the step it was reached at
    halvings: int = 0  # how often the rate was halved


def judge(
    selection: Selection, f1: float, step: int, training: Training
) -> tuple[Selection, bool, bool]:
    """After an evaluation: the selection, whether this is the best yet, and whether to stop.

    With the schedule 'halve', an evaluation that fails to improve is the paper's bad iteration.
    After ``patience`` halvings the next one ends the run.
    """
    if f1 > selection.best:
        return Selection(f1, step, selection.halvings), True, False
    if training.schedule != "halve":
        return selection, False, False
    if selection.halvings >= training.patience:
        return selection, False, True
    return Selection(selection.best, selection.best_step, selection.halvings + 1), False, False
