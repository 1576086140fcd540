"""SQuAD 2.0's scores, by the official definitions: questions that the passage answers, and questions that it does not.

A prediction is a text and a chance that there is no answer (``na_prob``). Above a threshold the text counts as empty.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class NoAnswerScore:
    """In percent, but for the threshold."""

    exact_match: float
    f1: float
    has_answer_exact: float
    has_answer_f1: float
    no_answer: float
    """Of the questions without an answer, the share that is given none: exact match and F1 in one."""
    answered: float
    """Of the questions with an answer, the share that is given one."""
    best_exact: float
    best_f1: float
    best_threshold: float
    """The ``na_prob`` above which giving no answer makes the best F1."""
    auroc: float
    """The chance that ``na_prob`` is higher for a question without an answer than for one with; ties count half."""
    total: int


def score_no_answer(
    exact: ArrayLike, f1: ArrayLike, na_prob: ArrayLike, has_answer: ArrayLike, threshold: float = 0.5
) -> NoAnswerScore:
    """The scores of predictions: how good each text is if it is given (0 to 1), and how likely there is no answer.

    An empty text must come with an ``na_prob`` of 1 or more.
    """
    exact, f1, na_prob = (np.asarray(values, np.float64) for values in (exact, f1, na_prob))
    has = np.asarray(has_answer, bool)
    given = na_prob <= threshold
    parts = [np.where(has, np.where(given, score, 0.0), ~given) for score in (exact, f1)]
    best_exact, _ = best_threshold(exact, na_prob, has)
    best_f1, chosen = best_threshold(f1, na_prob, has)
    return NoAnswerScore(
        exact_match=_percent(parts[0]),
        f1=_percent(parts[1]),
        has_answer_exact=_percent(parts[0][has]),
        has_answer_f1=_percent(parts[1][has]),
        no_answer=_percent(parts[0][~has]),
        answered=_percent(given[has]),
        best_exact=best_exact,
        best_f1=best_f1,
        best_threshold=chosen,
        auroc=100 * auroc(na_prob, ~has),
        total=len(has),
    )


def best_threshold(
    score: NDArray[np.float64], na_prob: NDArray[np.float64], has: NDArray[np.bool_]
) -> tuple[float, float]:
    """The best mean score in percent over all thresholds, and the lowest ``na_prob`` that reaches it."""
    order = np.argsort(na_prob, kind="stable")
    # with no text given, all questions without an answer are right; each text that is given gains its score or loses 1
    gains = np.where(has, score, -1.0)[order]
    totals = np.concatenate([[0.0], np.cumsum(gains)]) + np.sum(~has)
    # a threshold gives all texts of equal chance or none
    possible = np.concatenate([[True], np.append(np.diff(na_prob[order]) > 0, True)])
    best = int(np.argmax(np.where(possible, totals, -np.inf)))
    return 100 * float(totals[best]) / max(1, len(has)), float(na_prob[order[best - 1]]) if best else 0.0


def auroc(values: ArrayLike, positive: ArrayLike) -> float:
    """Area under the ROC curve, by ranks; NaN where all are of one kind."""
    values, positive = np.asarray(values, np.float64), np.asarray(positive, bool)
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    many = int(positive.sum())
    pairs = many * (len(values) - many)
    return float((rank[positive].sum() - many * (many + 1) / 2) / pairs) if pairs else float("nan")


def _percent(values: NDArray[Any]) -> float:
    return 100 * float(np.mean(values)) if len(values) else float("nan")
