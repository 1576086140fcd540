"""Does a reader's confidence mean what it says? Its calibration error before and after the temperature, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rmreader.errors import UserError
from rmreader.reading.answering.answers import text_of
from rmreader.reading.answering.calibrate import questions_of
from rmreader.reading.answering.reader import Reader
from rmreader.scoring.calibration import expected_calibration_error, log_loss, reliability
from rmreader.scoring.squad import exact_match, f1
from rmreader.studies import plots
from rmreader.studies.readers import everyone
from rmreader.studies.report import Report, report


def study_calibration(models: Sequence[str], data: Path, out: Path | None = None, device: str | None = None) -> Report:
    """Expected calibration error of each reader on questions that no temperature was fitted on."""
    names = [Path(model).name for model in models]
    labels = names if len(set(names)) == len(names) else [f"{k}-{name}" for k, name in enumerate(names, 1)]
    records, found, drawings = [], {}, []
    for label, (model, reader) in zip(labels, everyone(models, device).items(), strict=False):  # not of the ensemble
        about, confidences = judge(reader, data)
        found[model] = about
        for stage in confidences:
            words = {"name": model, "stage": f"{stage}, T = {about[stage]['temperature']:.3f}"}
            records.append({**about, **about[stage], **words})
        if out:
            title = f"{label}: {about['questions']:,} questions"
            drawings.append(plots.reliability(title, about, confidences, out / f"reliability-{label}.png"))
    made = report("calibration", records, found, file=data.name)
    made.files.extend(drawings)
    return made


def judge(reader: Reader, data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask a reader or an ensemble everything in a file: what its confidences are worth, and the
    confidences themselves, at temperature 1 and at its own."""
    temperatures, rows, scores = {"before": 1.0, "after": reader.temperature}, [], []
    for asked in reader.read(questions_of(data)):
        if asked.confidence is not None:
            rows.append([asked.confidence(temperature) for temperature in temperatures.values()])
            text, references = text_of(asked.answers(1, always=True)), asked.row.references
            scores.append((f1(text, references), exact_match(text, references)))
    if not rows:
        raise UserError(f"{data}: has no questions with answers; calibration is measured on those.")
    confidences = dict(zip(temperatures, np.array(rows).T, strict=True))
    right, exact = np.array(scores, float).T
    stages = {
        stage: {
            "temperature": temperatures[stage],
            "expected_calibration_error": expected_calibration_error(sure, right),
            "against_exact_match": expected_calibration_error(sure, exact),
            "log_loss": log_loss(sure, right),
            "mean_confidence": float(sure.mean()),
            "bins": [asdict(one) for one in reliability(sure, right)],
        }
        for stage, sure in confidences.items()
    }
    means = {"f1": 100 * float(right.mean()), "exact_match": 100 * float(exact.mean())}
    return {"questions": len(right), **means, **stages}, confidences
