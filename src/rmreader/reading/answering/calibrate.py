"""The temperature that makes a reader's confidences mean what they say, fitted on questions it did not learn from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.readers.folder import MANIFEST, find, open_folder
from rmreader.reading.answering.reader import Reader
from rmreader.scoring.calibration import expected_calibration_error, expected_share, fit_temperature
from rmreader.scoring.squad import f1
from rmreader.text.vectors import file_sha256

Known = tuple[str, str, Sequence[str]]  # a question, its passage, and the answers people gave


@dataclass(frozen=True)
class Calibration:
    """The temperature, and the expected calibration error before (at 1) and after."""

    temperature: float
    error_before: float
    error_after: float
    questions: int


def fit(reader: Reader, questions: Iterable[Known]) -> Calibration:
    """The temperature under which the confidences of the best answers have the lowest log loss against their F1."""
    known = list(questions)
    spreads: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    right: list[float] = []
    found = reader.spreads((question, passage) for question, passage, _ in known)
    for (_, _, references), (text, scores, shares) in zip(known, found, strict=True):
        if len(scores):
            spreads.append((scores, shares))
            right.append(f1(text, references))
    if not right:
        raise UserError("calibration needs questions with answers, and there are none.")

    def confidences(temperature: float) -> NDArray[np.float64]:
        return np.array([expected_share(*spread, temperature) for spread in spreads])

    temperature = fit_temperature(confidences, right)
    before, after = (expected_calibration_error(confidences(t), right) for t in (1.0, temperature))
    return Calibration(temperature, before, after, len(right))


def calibrate(folder: Path, questions: Iterable[Known], engine: str | None = None) -> Calibration:
    """Fit a reader's temperature and keep it in its folder."""
    if (shipped := find(folder)) != Path(folder):
        raise UserError(f"{folder}: a shipped reader stays as it is; copy {shipped} and calibrate the copy.")
    found = fit(Reader.load(folder, engine=engine), questions)  # type: ignore[arg-type]
    about = open_folder(folder).about | {
        "temperature": found.temperature,
        "calibration": {"before": found.error_before, "after": found.error_after, "questions": found.questions},
    }
    write_whole(folder / MANIFEST, (json.dumps(about, indent=1) + "\n").encode())
    return found


def questions_of(data: Path) -> Iterator[Known]:
    """The answered questions of a SQuAD-format file."""
    from rmreader.data.squad import read_squad

    answered = [(paragraph, question) for paragraph, question in read_squad(data).questions() if question.answers]
    if not answered:
        raise UserError(f"{data}: it holds no question with an answer, and calibration needs them.")
    for paragraph, question in answered:
        yield question.text, paragraph.context, [reference.text for reference in question.answers]


def held_out(folder: Path, train: Path) -> Iterator[Known]:
    """The answered questions of its training file that a reader's recipe held out, by article."""
    from rmreader.data.encode import encode_file
    from rmreader.data.split import split, split_seed

    opened = open_folder(folder)
    training, origin = opened.recipe.training, opened.about.get("provenance", {})
    if (known := origin.get("trained_on_sha256")) is not None and file_sha256(train) != known:
        raise UserError(
            f"{train}: not the file that {folder} learned from, {origin.get('trained_on')}, by its checksum; give that "
            "one, or questions that it did not learn from as --data."
        )
    _, held = split(encode_file(train), training.holdout, split_seed(training))
    if held is None:
        raise UserError(f"{folder}: its recipe held out no articles (training.holdout=0); give --data instead.")
    answered = [number for number in range(len(held)) if held.references(number)]
    if not answered:
        raise UserError(f"{train}: the articles held out have no question with an answer, and calibration needs them.")
    for number in answered:
        yield held.question(number), held.passage(number), held.references(number)
