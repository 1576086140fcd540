"""How good a reader is on a data set: the official score, and how far its confidences are from the truth."""

from __future__ import annotations

from dataclasses import dataclass

from rmreader.data.squad import Dataset
from rmreader.reading.answering.reader import Reader
from rmreader.scoring.adversarial import AdversarialScore, score_adversarial
from rmreader.scoring.calibration import expected_calibration_error
from rmreader.scoring.squad import Score, exact_match, f1, score


@dataclass(frozen=True)
class Evaluation:
    """A score, and the expected calibration error against F1, which confidences estimate, and against exact match."""

    score: Score | AdversarialScore
    ece: float
    ece_exact_match: float


def evaluate(reader: Reader, dataset: Dataset, min_confidence: float = 0.0, adversarial: bool = False) -> Evaluation:
    """Ask a reader every question and score its answers; one less sure than ``min_confidence`` counts as none given.

    ``adversarial`` scores AddSent-like data: each original question at its worst variant.
    """
    texts, sure, overlap, exact = dict[str, str](), list[float](), list[float](), list[float]()
    for row, answers in reader.predict(dataset):
        texts[row.id] = ""
        for answer in answers:
            sure.append(answer.confidence)
            overlap.append(f1(answer.text, row.references))
            exact.append(exact_match(answer.text, row.references))
            if answer.confidence >= min_confidence:
                texts[row.id] = answer.text
    result = score_adversarial(dataset, texts) if adversarial else score(dataset, texts)
    errors = (expected_calibration_error(sure, right) for right in (overlap, exact))
    return Evaluation(result, *errors)
