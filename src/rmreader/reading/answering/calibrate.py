"""The temperature that makes a reader's confidences mean what they say, fitted on questions it did not learn from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.data.encoded import Encoded
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.readers.folder import MANIFEST, find, open_folder
from rmreader.reading.answering.answers import Row, text_of
from rmreader.reading.answering.reader import Reader, rows_of
from rmreader.scoring.calibration import expected_calibration_error, fit_temperature
from rmreader.scoring.squad import f1
from rmreader.text.vectors import file_sha256


@dataclass(frozen=True)
class Calibration:
    """The temperature, and the expected calibration error before (at 1) and after."""

    temperature: float
    error_before: float
    error_after: float
    questions: int


def fit(reader: Reader, rows: Iterable[Row]) -> Calibration:
    """The temperature under which the confidences of the best answers have the lowest log loss against their F1."""
    sure: list[Callable[[float], float]] = []
    right: list[float] = []
    for asked in reader.read(rows):
        if asked.confidence is not None:
            sure.append(asked.confidence)
            right.append(f1(text_of(asked.answers(1)), asked.row.references))
    if not right:
        raise UserError("calibration needs questions with answers, and there are none.")

    def confidences(temperature: float) -> NDArray[np.float64]:
        return np.array([confidence(temperature) for confidence in sure])

    temperature = fit_temperature(confidences, right)
    before, after = (expected_calibration_error(confidences(t), right) for t in (1.0, temperature))
    return Calibration(temperature, before, after, len(right))


def calibrate(folder: Path, rows: Iterable[Row], engine: str | None = None) -> Calibration:
    """Fit a reader's temperature and keep it in its folder."""
    if (shipped := find(folder)) != Path(folder):
        raise UserError(f"{folder}: a shipped reader stays as it is; copy {shipped} and calibrate the copy.")
    found = fit(Reader.load(folder, engine=engine), rows)  # type: ignore[arg-type]
    about = open_folder(folder).about | {
        "temperature": found.temperature,
        "calibration": {"before": found.error_before, "after": found.error_after, "questions": found.questions},
    }
    write_whole(folder / MANIFEST, (json.dumps(about, indent=1) + "\n").encode())
    return found


def questions_of(data: Path) -> list[Row]:
    """The answered questions of a SQuAD-format file."""
    rows = [row for row in rows_of(read_squad(data)) if row.references]
    if not rows:
        raise UserError(f"{data}: it holds no question with an answer, and calibration needs them.")
    return rows


def held_out(folder: Path, train: Path) -> list[Row]:
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
    rows = answered(held)
    if not rows:
        raise UserError(f"{train}: the articles held out have no question with an answer, and calibration needs them.")
    return rows


def answered(encoded: Encoded) -> list[Row]:
    """The answered questions of encoded data."""
    return [
        Row(str(number), encoded.question(number), encoded.passage(number), tuple(references))
        for number in range(len(encoded))
        if (references := encoded.references(number))
    ]
