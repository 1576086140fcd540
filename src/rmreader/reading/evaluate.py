"""How good a reader is on a data set: the official scores, and how far its confidences are from the
truth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
class Decided:
    """What a user gets where every question has an answer: a refusal is a wrong answer."""

    exact_match: float
    f1: float
    answered: float
    """Share of the questions that are answered at all. All three in percent."""


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
    decided: Decided | None = None
    """The same answers after the decision, where ``score`` is with the decision off."""


def best_answers(reader: Reader, dataset: Dataset) -> dict[str, Answer | None]:
    """The best answer to every question by id; None where there is nothing to read, or none by the
    reader's decision.

    As in ``evaluate``, one is always given where every question has one.
    """
    always = not _some_impossible(dataset)
    return {
        row.id: found[0] if found else None for row, found in reader.predict(dataset, always=always)
    }


@dataclass(frozen=True)
class _ScoredAnswer:
    """The best answer to one question, and how good it is."""

    confidence: float
    f1: float
    exact_match: float
    no_answer: float
    has_answer: bool


def evaluate(
    reader: Reader,
    dataset: Dataset,
    min_confidence: float = 0.0,
    adversarial: bool = False,
) -> Evaluation:
    """Ask a reader every question and score its answers.

    An answer less sure than ``min_confidence`` counts as none given. Where every question has an
    answer, as in SQuAD 1.1, one is always given, as the paper's reader does. ``adversarial`` scores
    AddSent-like data: each original question at its worst variant.
    """
    has_impossible = _some_impossible(dataset)
    decision = reader.decision if has_impossible else None
    threshold = 1.0 if decision is None else decision.threshold
    texts: dict[str, str] = {}
    rows: list[_ScoredAnswer] = []
    for row, answers in reader.predict(dataset, always=True):
        texts[row.id] = ""
        best = answers.best
        if best is None:
            continue

        scored = _score_answer(best, answers.no_answer or 0.0, row.references, decision is not None)
        rows.append(scored)
        if scored.no_answer <= threshold and scored.confidence >= min_confidence:
            texts[row.id] = best.text

    found = Evaluation(
        score=score_adversarial(dataset, texts) if adversarial else score(dataset, texts),
        ece=_calibration_error(rows, [row.f1 for row in rows]),
        ece_exact_match=_calibration_error(rows, [row.exact_match for row in rows]),
    )
    if decision is not None:
        return replace(found, no_answer=_score_no_answer(rows, threshold))

    # An attacked question is scored at its worst variant, which no decision has to do with.
    is_plain = not has_impossible and not adversarial
    return replace(found, decided=_score_decided(rows, reader, len(texts), is_plain))


def _some_impossible(dataset: Dataset) -> bool:
    """Whether the data has questions without an answer, as SQuAD 2.0 does."""
    return any(question.impossible for _, question in dataset.questions())


def _score_answer(
    best: Answer,
    no_answer: float,
    references: Sequence[str],
    decides: bool,
) -> _ScoredAnswer:
    """Score one answer; where the reader decides, the chance of none lowers its confidence."""
    return _ScoredAnswer(
        confidence=best.confidence * (1 - no_answer) if decides else best.confidence,
        f1=f1(best.text, references),
        exact_match=exact_match(best.text, references),
        no_answer=no_answer,
        has_answer=bool(references),
    )


def _score_decided(
    rows: Sequence[_ScoredAnswer],
    reader: Reader,
    total: int,
    is_plain: bool,
) -> Decided | None:
    """Score what is left after the decision, of plain questions and a reader that decides."""
    if not is_plain or reader.decision is None or total == 0:
        return None
    threshold = reader.decision.threshold
    given = [row for row in rows if row.no_answer <= threshold]
    return Decided(
        exact_match=100 * sum(row.exact_match for row in given) / total,
        f1=100 * sum(row.f1 for row in given) / total,
        answered=100 * len(given) / total,
    )


def _calibration_error(rows: Sequence[_ScoredAnswer], right: Sequence[float]) -> float:
    return expected_calibration_error([row.confidence for row in rows], right)


def _score_no_answer(rows: Sequence[_ScoredAnswer], threshold: float) -> NoAnswerScore:
    return score_no_answer(
        [row.exact_match for row in rows],
        [row.f1 for row in rows],
        [row.no_answer for row in rows],
        [row.has_answer for row in rows],
        threshold,
    )
