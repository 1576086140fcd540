"""The official scores, each by the rule of its authors' script.

SQuAD 1.1's exact match and F1, SQuAD 2.0's with questions that have no answer, and those of AddSent
and AddOneSent (Jia & Liang, 2017).
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.reading import read_json
from rmreader.data.squad import Dataset, Question, why_none

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Score:
    """Averages over all questions, in percent; a question without a prediction counts as wrong."""

    exact_match: float
    f1: float
    total: int
    missing: int

    def tree(self) -> dict[str, float]:
        """As plain data."""
        return {"exact_match": self.exact_match, "f1": self.f1, "total": self.total}


def normalize(text: str) -> str:
    """Lower-case, then drop ASCII punctuation, articles and extra space: the official order."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def scored_words(words: Sequence[str]) -> list[str]:
    """Return each word of a text as it counts in F1; empty where it does not."""
    plain = "\n".join(words).lower().translate(_NO_PUNCTUATION).split("\n")
    return ["" if word in ("a", "an", "the") else word for word in plain]


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """Return 1 where the prediction equals a reference once both are normalised, else 0.

    No references at all means an impossible question: there the empty prediction is the right one.
    """
    predicted = normalize(prediction)
    expected = [normalize(reference) for reference in references or ("",)]
    return float(predicted in expected)


def f1(prediction: str, references: Sequence[str]) -> float:
    """Return the best overlap of words, as F1, between the prediction and any reference."""
    predicted = normalize(prediction).split()
    if not references:
        return float(not predicted)
    return max(_overlap(predicted, normalize(reference).split()) for reference in references)


def _overlap(predicted: list[str], reference: list[str]) -> float:
    # As in the 1.1 script, nothing shared is 0 even where both are empty (a reference "The").
    shared = (Counter(predicted) & Counter(reference)).total()
    if not shared:
        return 0.0
    precision = shared / len(predicted)
    recall = shared / len(reference)
    return 2 * precision * recall / (precision + recall)


def score_question(question: Question, predictions: Mapping[str, str]) -> tuple[float, float]:
    """Return exact match and F1 of one question, from 0 to 1; 0 where it has no prediction."""
    if not question.answers and not question.impossible:
        raise UserError(
            f"question {question.id}: it has no reference answer, so it cannot be scored; "
            "remove it."
        )
    prediction = predictions.get(question.id)
    if prediction is None:
        return 0.0, 0.0
    references = () if question.impossible else tuple(answer.text for answer in question.answers)
    return exact_match(prediction, references), f1(prediction, references)


def score(dataset: Dataset, predictions: Mapping[str, str]) -> Score:
    """Score predictions (question id to text) on a data set."""
    questions = [question for _, question in dataset.questions()]
    if not questions:
        raise _nothing_to_score(dataset)
    mean_exact, mean_f1 = _mean([score_question(question, predictions) for question in questions])
    return Score(
        exact_match=mean_exact,
        f1=mean_f1,
        total=len(questions),
        missing=sum(question.id not in predictions for question in questions),
    )


def _nothing_to_score(dataset: Dataset) -> UserError:
    name = dataset.file or "the data set"
    return UserError(f"{name}: it holds no question to score{why_none(dataset.problems)}.")


def read_predictions(path: str | Path) -> dict[str, str]:
    """Read a file of predictions in the official format; ``.gz`` is understood.

    It is one JSON object, question id to text.
    """
    with user_error_on(f"{path}: no such file; `rmreader predict` writes one.", FileNotFoundError):
        tree = read_json(Path(path), "predictions are one object, id to text")
    if not isinstance(tree, dict):
        raise UserError(
            f"{path}: predictions are one JSON object, question id to text; "
            f"this is a {type(tree).__name__}."
        )
    for id, text in tree.items():
        if not isinstance(text, str):
            kind = "null" if text is None else f"a {type(text).__name__}"
            raise UserError(
                f"{path}: the prediction of {id[:80]!r} is {kind}, not a text; fix the file."
            )
    return tree


@dataclass(frozen=True)
class NoAnswerScore:
    """In percent, but for the threshold."""

    exact_match: float
    f1: float
    has_answer_exact: float
    has_answer_f1: float
    no_answer: float
    """Of the questions without an answer, the share given none: exact match and F1 in one."""
    answered: float
    """Of the questions with an answer, the share that is given one."""
    best_exact: float
    best_f1: float
    best_threshold: float
    """The ``na_prob`` above which giving no answer makes the best F1."""
    auroc: float
    """Chance that ``na_prob`` is higher for a question without an answer; ties count half."""
    total: int


def score_no_answer(
    exact: ArrayLike,
    f1: ArrayLike,
    na_prob: ArrayLike,
    has_answer: ArrayLike,
    threshold: float = 0.5,
) -> NoAnswerScore:
    """Score predictions of which each may be no answer.

    ``exact`` and ``f1`` say how good each text is if it is given (0 to 1), ``na_prob`` how likely
    there is no answer. An empty text must come with an ``na_prob`` of 1 or more.
    """
    exact = np.asarray(exact, np.float64)
    f1 = np.asarray(f1, np.float64)
    na_prob = np.asarray(na_prob, np.float64)
    has = np.asarray(has_answer, bool)
    given = na_prob <= threshold
    actual_exact = np.where(has, np.where(given, exact, 0.0), ~given)
    actual_f1 = np.where(has, np.where(given, f1, 0.0), ~given)
    best_exact, _ = best_threshold(exact, na_prob, has)
    best_f1, threshold_of_best = best_threshold(f1, na_prob, has)
    return NoAnswerScore(
        exact_match=_percent(actual_exact),
        f1=_percent(actual_f1),
        has_answer_exact=_percent(actual_exact[has]),
        has_answer_f1=_percent(actual_f1[has]),
        no_answer=_percent(actual_exact[~has]),
        answered=_percent(given[has]),
        best_exact=best_exact,
        best_f1=best_f1,
        best_threshold=threshold_of_best,
        auroc=100 * auroc(na_prob, ~has),
        total=len(has),
    )


def best_threshold(
    score: NDArray[np.float64],
    na_prob: NDArray[np.float64],
    has: NDArray[np.bool_],
) -> tuple[float, float]:
    """Return the best mean score in percent over all thresholds, and the threshold."""
    order = np.argsort(na_prob, kind="stable")
    # With no text given, all questions without an answer are right; each text that is given gains
    # its score or loses 1.
    gains = np.where(has, score, -1.0)[order]
    totals = np.concatenate([[0.0], np.cumsum(gains)]) + np.sum(~has)
    # A threshold gives all texts of equal chance or none.
    differs = np.append(np.diff(na_prob[order]) > 0, True)
    possible = np.concatenate([[True], differs])
    best = int(np.argmax(np.where(possible, totals, -np.inf)))
    percent = 100 * float(totals[best]) / max(1, len(has))
    return percent, float(na_prob[order[best - 1]]) if best else 0.0


def auroc(values: ArrayLike, positive: ArrayLike) -> float:
    """Return the area under the ROC curve, by ranks; NaN where all are of one kind."""
    values = np.asarray(values, np.float64)
    positive = np.asarray(positive, bool)
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    # Equal values share the mean of their ranks.
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    positives = int(positive.sum())
    pairs = positives * (len(values) - positives)
    if not pairs:
        return float("nan")
    return float((rank[positive].sum() - positives * (positives + 1) / 2) / pairs)


def _percent(values: NDArray[Any]) -> float:
    return 100 * float(np.mean(values)) if len(values) else float("nan")


def _mean(rows: Collection[tuple[float, float]]) -> tuple[float, float]:
    """Return mean exact match and F1 in percent; 0 of nothing."""
    count = max(len(rows), 1)
    mean_exact = 100 * sum(row[0] for row in rows) / count
    mean_f1 = 100 * sum(row[1] for row in rows) / count
    return mean_exact, mean_f1


@dataclass(frozen=True)
class AdversarialScore:
    """Averages over the originals, in percent, each at its worst variant.

    ``clean`` is the score without the attack.
    """

    exact_match: float
    f1: float
    total: int
    missing: int
    attacked: int  # originals that have a variant
    clean: Score

    def tree(self) -> dict[str, float]:
        """As plain data, the unattacked score beside it."""
        return {
            "exact_match": self.exact_match,
            "f1": self.f1,
            "total": self.total,
            "clean_exact_match": self.clean.exact_match,
            "clean_f1": self.clean.f1,
        }


def original(id: str) -> str:
    """Return the question that a row comes from: ids are ``original`` or ``original-variant``."""
    return id.partition("-")[0]


def score_adversarial(dataset: Dataset, predictions: Mapping[str, str]) -> AdversarialScore:
    """Score each original by the lowest F1 over its variants, with that variant's exact match.

    The unattacked row counts only for an original that has no variant. Among equally low variants
    the first in the file gives the exact match, as in the authors' script.
    """
    clean, worst = twins(dataset, predictions)
    if not clean and not worst:
        raise _nothing_to_score(dataset)
    missing = [id for id in _ids(dataset) if id not in predictions]
    clean_exact, clean_f1 = _mean(clean.values())
    counted = clean | worst
    mean_exact, mean_f1 = _mean(counted.values())
    return AdversarialScore(
        exact_match=mean_exact,
        f1=mean_f1,
        total=len(counted),
        missing=len(missing),
        attacked=len(worst),
        clean=Score(
            exact_match=clean_exact,
            f1=clean_f1,
            total=len(clean),
            missing=sum(id in clean for id in missing),
        ),
    )


def _ids(dataset: Dataset) -> list[str]:
    return [question.id for _, question in dataset.questions()]


def twins(
    dataset: Dataset,
    predictions: Mapping[str, str],
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Return exact match and F1 of each original as it is, and at its worst variant, if any."""
    clean: dict[str, tuple[float, float]] = {}
    worst: dict[str, tuple[float, float]] = {}
    for _, question in dataset.questions():
        row = score_question(question, predictions)
        root = original(question.id)
        if question.id == root:
            clean[root] = row
        elif root not in worst or row[1] < worst[root][1]:
            worst[root] = row
    return clean, worst
