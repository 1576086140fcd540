"""Exact match and F1 by the rule of the official SQuAD 1.1 evaluation script (and 2.0's for impossible questions)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmreader.data.squad import why_none
from rmreader.errors import UserError, explained
from rmreader.files import read_json

if TYPE_CHECKING:
    from rmreader.data.squad import Dataset, Question

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
    """Lower-case, then drop ASCII punctuation, then articles, then extra white space: the official order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def scored_words(words: Sequence[str]) -> list[str]:
    """Each word of a text as it counts in F1; empty where it does not."""
    plain = "\n".join(words).lower().translate(_NO_PUNCTUATION).split("\n")
    return ["" if word in ("a", "an", "the") else word for word in plain]


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """1 where the prediction equals a reference once both are normalised, else 0.

    No references at all means an impossible question: there the empty prediction is the right one.
    """
    predicted = normalize(prediction)
    return float(any(predicted == normalize(reference) for reference in references or ("",)))


def f1(prediction: str, references: Sequence[str]) -> float:
    """The best overlap of words, as F1, between the prediction and any reference."""
    predicted = normalize(prediction).split()
    if not references:
        return float(not predicted)
    return max(_overlap(predicted, normalize(reference).split()) for reference in references)


def _overlap(predicted: list[str], reference: list[str]) -> float:
    # As in the 1.1 script, nothing shared is 0 even where both are empty (a reference such as "The").
    shared = (Counter(predicted) & Counter(reference)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(reference)
    return 2 * precision * recall / (precision + recall)


def score_question(question: Question, predictions: Mapping[str, str]) -> tuple[float, float]:
    """Exact match and F1 of one question, each between 0 and 1; both 0 where it has no prediction."""
    if not question.answers and not question.impossible:
        raise UserError(f"question {question.id}: it has no reference answer, so it cannot be scored; remove it.")
    prediction = predictions.get(question.id)
    if prediction is None:
        return 0.0, 0.0
    references = () if question.impossible else tuple(answer.text for answer in question.answers)
    return exact_match(prediction, references), f1(prediction, references)


def score(dataset: Dataset, predictions: Mapping[str, str]) -> Score:
    """Score predictions (question id to text) on a data set."""
    questions = [question for _, question in dataset.questions()]
    if not questions:
        raise UserError(f"{dataset.file or 'the data set'}: it holds no question to score{why_none(dataset.problems)}.")
    rows = [score_question(question, predictions) for question in questions]
    return Score(
        exact_match=100 * sum(em for em, _ in rows) / len(rows),
        f1=100 * sum(overlap for _, overlap in rows) / len(rows),
        total=len(rows),
        missing=sum(question.id not in predictions for question in questions),
    )


def read_predictions(path: str | Path) -> dict[str, str]:
    """Read a file of predictions in the official format: one JSON object, question id to text; ``.gz`` understood."""
    with explained(f"{path}: no such file; `rmreader predict` writes one.", FileNotFoundError):
        tree = read_json(Path(path), "predictions are one object, id to text")
    if not isinstance(tree, dict):
        raise UserError(
            f"{path}: predictions are one JSON object, question id to text; this is a {type(tree).__name__}."
        )
    for id, text in tree.items():
        if not isinstance(text, str):
            kind = "null" if text is None else f"a {type(text).__name__}"
            raise UserError(f"{path}: the prediction of {id[:80]!r} is {kind}, not a text; fix the file.")
    return tree
