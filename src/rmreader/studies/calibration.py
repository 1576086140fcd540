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
from rmreader.scoring.calibration import expected_calibration_error, log_loss, reliability
from rmreader.scoring.squad import exact_match, f1
from rmreader.studies import plots
from rmreader.studies.readers import load, refuse_twice
from rmreader.studies.report import Report, report


def study_calibration(models: Sequence[str], data: Path, out: Path | None = None) -> Report:
    """Expected calibration error of each reader on questions that no temperature was fitted on."""
    names = [Path(model).name for model in models]
    labels = names if len(set(names)) == len(names) else [f"{k}-{name}" for k, name in enumerate(names, 1)]
    rows: list[tuple[str, ...]] = []
    made = report("calibration", rows, {}, file=data.name)
    refuse_twice(models)
    for model, label in zip(models, labels, strict=True):
        found, confidences = judge(model, data)
        made.data[model] = found
        for stage in confidences:
            one = found[stage]
            errors = one["expected_calibration_error"], one["log_loss"]
            rows.append((model, f"{stage}, T = {one['temperature']:.3f}", *(f"{error:.4f}" for error in errors),
                         f"{100 * one['mean_confidence']:.1f} %", f"{found['f1']:.1f}",
                         f"{one['against_exact_match']:.4f}", f"{found['exact_match']:.1f}"))  # fmt: skip
        if out:
            title = f"{label}: {found['questions']:,} questions"
            made.files.append(plots.reliability(title, found, confidences, out / f"reliability-{label}.png"))
    return made


def judge(model: str, data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask a reader or an ensemble everything in a file: what its confidences are worth, and the
    confidences themselves, at temperature 1 and at its own."""
    reader = load(model)
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
