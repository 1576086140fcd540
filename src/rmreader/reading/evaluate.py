"""How good a reader is on a data set: the official scores, and how far its confidences are from the
truth."""

from dataclasses import dataclass

from rmreader.data.squad import Dataset
from rmreader.reading.answers import Answer
from rmreader.reading.reader import Reader
from rmreader.scoring.calibration import expected_calibration_error
from rmreader.scoring.squad import (
    AdversarialScore,
    NoAnswerScore,
    Score,
    exact_match,
    f1,
    score,
    score_adversarial,
    score_no_answer,
)


@dataclass(frozen=True)
class Evaluation:
    """A score, and the expected calibration error against F1, which confidences estimate, and
    against exact match."""

    score: Score | AdversarialScore
    ece: float
    ece_exact_match: float
    no_answer: NoAnswerScore | None = None
    """SQuAD 2.0's scores, where questions have no answer and the reader can say so; ``score`` is
    then after its decision, else with the decision off."""


def best_answers(reader: Reader, dataset: Dataset) -> dict[str, Answer | None]:
    """The best answer to every question by id; None where there is nothing to read, or none by the
    reader's decision.

    As in ``evaluate``, one is always given where every question has one.
    """
    always = not any(question.impossible for _, question in dataset.questions())
    return {
        row.id: found[0] if found else None for row, found in reader.predict(dataset, always=always)
    }


def evaluate(
    reader: Reader, dataset: Dataset, min_confidence: float = 0.0, adversarial: bool = False
) -> Evaluation:
    """Ask a reader every question and score its answers; one less sure than ``min_confidence``
    counts as none given.

    Where every question has an answer, as in SQuAD 1.1, one is always given, as the paper's reader
    does. ``adversarial`` scores AddSent-like data: each original question at its worst variant.
    """
    able = reader.decision is not None and any(
        question.impossible for _, question in dataset.questions()
    )
    texts, sure, overlap, exact = dict[str, str](), list[float](), list[float](), list[float]()
    chances, has = list[float](), list[bool]()
    for row, answers in reader.predict(dataset, always=True):
        texts[row.id] = ""
        none = answers.no_answer if answers.no_answer is not None else float(not answers)
        for answer in answers:
            sure.append(answer.confidence * ((1 - none) if able else 1.0))
            overlap.append(f1(answer.text, row.references))
            exact.append(exact_match(answer.text, row.references))
            chances.append(none)
            has.append(bool(row.references))
            given = reader.decision is None or not able or none <= reader.decision.threshold
            if given and sure[-1] >= min_confidence:
                texts[row.id] = answer.text
    result = score_adversarial(dataset, texts) if adversarial else score(dataset, texts)
    error, error_exact = (expected_calibration_error(sure, right) for right in (overlap, exact))
    threshold = reader.decision.threshold if reader.decision is not None else 1.0
    no_answer = score_no_answer(exact, overlap, chances, has, threshold) if able else None
    return Evaluation(result, error, error_exact, no_answer)
