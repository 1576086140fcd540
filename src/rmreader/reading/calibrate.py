"""What makes a reader's chances mean what they say, fitted on questions it did not learn from: the
temperature of its confidences and, where it can tell that there is no answer, scale and shift of
that chance."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.data.encoded import Encoded
from rmreader.data.examples import read_data
from rmreader.data.squad import why_none
from rmreader.readers.folder import find, open_folder
from rmreader.readers.write import update
from rmreader.reading.answers import text_of
from rmreader.reading.decision import Decision, fit_decision
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow, rows_of
from rmreader.scoring.calibration import (
    expected_calibration_error,
    fit_temperature,
    log_loss,
    reliability,
)
from rmreader.scoring.squad import exact_match, f1

ENOUGH = 100  # questions to fit a temperature on


@dataclass(frozen=True)
class Calibration:
    """The temperature, and the expected calibration error before (at 1) and after."""

    temperature: float
    error_before: float
    error_after: float
    questions: int
    # Where the reader can tell that there is no answer, and some questions had none.
    decision: Decision | None = None


def fit(
    reader: Reader,
    rows: Iterable[QuestionRow],
    answered: float = 0.0,
    balanced: bool = False,
) -> Calibration:
    """The temperature under which the confidences of the best answers have the lowest log loss
    against their F1.

    Where the reader can tell that there is no answer, the confidence is the product of two chances,
    each fitted on what it is about: that there is an answer, on all questions, and the F1 to expect
    if there is, on those with an answer.

    ``answered``: of the questions with an answer, the share that must be answered at least.
    ``balanced``: chances as if half of all questions had no answer, whatever their share is here.
    """
    questions = _scored_questions(reader, rows)
    if not any(question.has_answer for question in questions):
        raise UserError("calibration needs questions with answers, and there are none.")

    f1s = np.array([question.f1 for question in questions])
    log_odds = [question.log_odds for question in questions]
    has_answer = np.array([question.has_answer for question in questions])
    decision = reader.decision
    if decision is not None and not has_answer.all():
        decision = _fit_decision(log_odds, has_answer, f1s, answered, balanced)

    def confidences(temperature: float) -> NDArray[np.float64]:
        return np.array([question.confidence(temperature) for question in questions])

    temperature = fit_temperature(lambda t: confidences(t)[has_answer], f1s[has_answer])

    # The chance that there is an answer: 1 for a reader that cannot tell.
    there = np.ones(len(questions))
    if decision is not None:
        there = np.array([1 - decision.chance(odds) for odds in log_odds])

    return Calibration(
        temperature,
        error_before=expected_calibration_error(there * confidences(1.0), f1s),
        error_after=expected_calibration_error(there * confidences(temperature), f1s),
        questions=len(questions),
        decision=decision,
    )


@dataclass(frozen=True)
class _ScoredQuestion:
    """A question that was read: how sure its best answer is, and how good."""

    confidence: Callable[[float], float]  # of the temperature
    f1: float
    log_odds: float  # that there is no answer
    has_answer: bool


def _scored_questions(reader: Reader, rows: Iterable[QuestionRow]) -> list[_ScoredQuestion]:
    """Read the questions; left out is what tells nothing, such as an empty passage."""
    questions = []
    for question in reader.read(rows):
        references = question.row.references
        confidence = question.confidence
        if confidence is None or (not references and question.log_odds is None):
            continue

        text = text_of(question.answers(1, always=True))
        scored = _ScoredQuestion(
            confidence,
            f1=f1(text, references),
            log_odds=question.log_odds or 0.0,
            has_answer=bool(references),
        )
        questions.append(scored)

    return questions


def _fit_decision(
    log_odds: Sequence[float],
    has_answer: NDArray[np.bool_],
    f1s: NDArray[np.float64],
    answered: float,
    balanced: bool,
) -> Decision:
    """Scale and shift by logistic regression; an answer is given where it is expected to score more
    than silence.

    With p the chance of none, (1 − p) · F1 ≥ p: up to p = F1 / (1 + F1), F1 the mean of the answers
    to questions that have one. The threshold with the best score on these very questions would be
    no better on others, and less steady. It is higher where else too few questions that have an
    answer would get one.
    """
    expected = float(f1s[has_answer].mean())
    scale, shift = fit_decision(log_odds, ~has_answer)
    if balanced:
        # Another share of questions without an answer moves all log-odds alike.
        share = float(has_answer.mean())
        shift += math.log(share / (1 - share))
    fitted = Decision(scale, shift, threshold=expected / (1 + expected))
    if not answered:
        return fitted
    chances = [fitted.chance(odds) for odds in np.asarray(log_odds)[has_answer]]
    enough = float(np.quantile(chances, answered))
    return dataclasses.replace(fitted, threshold=max(fitted.threshold, enough))


def calibrate(
    folder: Path,
    rows: Iterable[QuestionRow],
    engine: str | None = None,
    answered: float = 0.0,
    balanced: bool = False,
) -> Calibration:
    """Fit a reader's temperature and decision, see ``fit``, and keep them in its folder."""
    if (shipped := find(folder)) != Path(folder):
        raise UserError(
            f"{folder}: a shipped reader stays as it is; copy {shipped} and calibrate the copy."
        )

    reader = Reader.load(folder, engine=engine)  # type: ignore[arg-type]
    found = fit(reader, rows, answered, balanced)
    told = {"before": found.error_before, "after": found.error_after, "questions": found.questions}
    decided = (
        {"no_answer": dataclasses.asdict(found.decision)} if found.decision is not None else {}
    )
    update(folder, temperature=found.temperature, calibration=told, **decided)

    return found


def judge(reader: Reader, data: Path) -> dict[str, Any]:
    """What a reader's confidences are worth on the questions of a file, before (at temperature 1)
    and after its own."""
    temperatures = {"before": 1.0, "after": reader.temperature}
    found = []
    for asked in reader.read(questions_of(data)):
        if asked.confidence is not None:
            text = text_of(asked.answers(1, always=True))
            references = asked.row.references
            sure = [asked.confidence(temperature) for temperature in temperatures.values()]
            found.append([f1(text, references), exact_match(text, references), *sure])

    if not found:
        raise UserError(f"{data}: has no questions with answers; calibration is measured on those.")

    right, exact, *confidences = np.array(found).T
    about: dict[str, Any] = {
        "questions": len(right),
        "f1": 100 * right.mean(),
        "exact_match": 100 * exact.mean(),
    }
    for (stage, temperature), sure in zip(temperatures.items(), confidences, strict=True):
        about[stage] = {
            "temperature": temperature,
            "expected_calibration_error": expected_calibration_error(sure, right),
            "against_exact_match": expected_calibration_error(sure, exact),
            "log_loss": log_loss(sure, right),
            "mean_confidence": float(sure.mean()),
            "bins": [dataclasses.asdict(one) for one in reliability(sure, right)],
        }

    return about


def questions_of(data: Path, no_answer: bool = False) -> list[QuestionRow]:
    """The answered questions of a SQuAD-format file, and with ``no_answer`` the others too."""
    dataset = read_data(data)
    rows = [row for row in rows_of(dataset) if row.references or no_answer]
    if not any(row.references for row in rows):
        why = why_none(dataset.problems)
        raise UserError(
            f"{data}: it holds no question with an answer, and calibration needs them{why}."
        )

    return rows


def held_out(folder: Path, train: Path) -> list[QuestionRow]:
    """The questions of its training file that a reader's recipe held out, by article; those without
    an answer only where its network can say so."""
    from rmreader.data.encode import encode_file
    from rmreader.data.split import split, split_seed

    opened = open_folder(folder)
    training = opened.recipe.training
    origin = opened.about.get("provenance", {})
    if (known := origin.get("trained_on_sha256")) is not None and file_sha256(train) != known:
        raise UserError(
            f"{train}: not the file that {folder} learned from, {origin.get('trained_on')}, by its "
            "checksum; give that one, or questions that it did not learn from as --data."
        )

    _, held = split(encode_file(train), training.holdout, split_seed(training))
    if held is None:
        raise UserError(
            f"{folder}: its recipe held out no articles (training.holdout=0); give --data instead."
        )

    rows = [row for row in rows_in(held) if row.references or opened.recipe.network.no_answer]
    if not any(row.references for row in rows):
        raise UserError(
            f"{train}: the articles held out have no question with an answer, and calibration "
            "needs them."
        )

    return rows


def rows_in(encoded: Encoded) -> list[QuestionRow]:
    """The questions of encoded data."""
    return [
        QuestionRow(
            str(number),
            encoded.question(number),
            encoded.passage(number),
            tuple(encoded.references(number)),
        )
        for number in range(len(encoded))
    ]
