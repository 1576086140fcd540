"""Does a reader's confidence mean what it says? Its calibration error before and after the temperature, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.errors import UserError
from rmreader.reading.answering.answers import text_of
from rmreader.reading.answering.calibrate import questions_of
from rmreader.reading.answering.ensemble import Ensemble
from rmreader.reading.answering.reader import Reader
from rmreader.scoring.calibration import expected_calibration_error, log_loss, reliability
from rmreader.scoring.squad import exact_match, f1
from rmreader.studies.folders import reader_folders
from rmreader.studies.report import Report


@dataclass(frozen=True)
class Judged:
    """A reader's best answers: how sure it is of each, at temperature 1 and at its own, and how right they are (F1)."""

    name: str
    temperature: float
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    right: NDArray[np.float64]
    exact: NDArray[np.float64]

    def stages(self) -> dict[str, tuple[float, NDArray[np.float64]]]:
        """Temperature and confidences, before and after."""
        return {"before": (1.0, self.before), "after": (self.temperature, self.after)}


def study_calibration(models: Sequence[str], data: Path, out: Path | None = None) -> Report:
    """Expected calibration error of each reader on questions that no temperature was fitted on."""
    folders = {model: reader_folders(model) for model in models}
    if len({tuple(path.resolve() for path in paths) for paths in folders.values()}) < len(models):
        raise UserError("a reader is given twice; name each once.")
    judged = [judge(model, folders[model], data) for model in models]
    rows = [
        (one.name, f"{stage}, T = {temperature:.3f}", f"{_error(one, sure):.4f}", f"{log_loss(sure, one.right):.4f}",
         f"{100 * sure.mean():.1f} %", f"{100 * one.right.mean():.1f}",
         f"{expected_calibration_error(sure, one.exact):.4f}", f"{100 * one.exact.mean():.1f}")
        for one in judged for stage, (temperature, sure) in one.stages().items()
    ]  # fmt: skip
    return Report(
        name="calibration",
        title=f"Calibration on {data.name}",
        header=("reader", "temperature", "error", "log loss", "mean confidence", "F1", "error against EM", "EM"),
        rows=rows,
        data={one.name: _data(one) for one in judged},
        notes=[
            "A confidence is the F1 to expect of an answer. Nothing was fitted on these questions: a temperature comes "
            "from articles held out of training."
        ],
        files=[draw(one, out / f"reliability-{label}.png") for one, label in zip(judged, _labels(models), strict=True)]
        if out
        else [],
    )


def _labels(models: Sequence[str]) -> list[str]:
    """A short name for each reader's plot: its folder's, with a number in front where two have the same."""
    names = [Path(model).name for model in models]
    return names if len(set(names)) == len(names) else [f"{k}-{name}" for k, name in enumerate(names, 1)]


def judge(model: str, folders: Sequence[Path], data: Path) -> Judged:
    """Ask a reader, or an ensemble of several folders, everything in a file."""
    reader = Reader.load(folders[0]) if len(folders) == 1 else Ensemble.of(folders)
    temperatures, rows, right = (1.0, reader.temperature), [], []
    for asked in reader.read(questions_of(data)):
        if asked.confidence is not None:
            rows.append([asked.confidence(temperature) for temperature in temperatures])
            text = text_of(asked.answers(1))
            right.append((f1(text, asked.row.references), exact_match(text, asked.row.references)))
    if not rows:
        raise UserError(f"{data}: has no questions with answers; calibration is measured on those.")
    before, after = np.array(rows).T
    return Judged(model, reader.temperature, before, after, *np.array(right, float).T)


def draw(one: Judged, path: Path) -> Path:
    """The reliability plot: accuracy against confidence, and how often each is given."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (plot, counts) = pyplot.subplots(
        2, 1, figsize=(5.2, 5.8), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    plot.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1, label="as sure as right")
    for (stage, (temperature, sure)), colour, marker in zip(
        one.stages().items(), ("C1", "C0"), ("s", "o"), strict=True
    ):
        bins = [found for found in reliability(sure, one.right) if found.count]
        label = f"{stage}, T = {temperature:.2f}: error {_error(one, sure):.3f}"
        where = [found.confidence for found in bins]
        plot.plot(where, [found.accuracy for found in bins], color=colour, marker=marker, markersize=5, label=label)
        counts.hist(sure, bins=np.linspace(0, 1, 11).tolist(), histtype="step", color=colour, linewidth=1.5)
    title = f"{path.stem.removeprefix('reliability-')}: {len(one.right):,} questions"
    plot.set(title=title, ylabel="mean F1", xlim=(0, 1), ylim=(0, 1))
    plot.legend(loc="upper left", fontsize=9)
    counts.set(xlabel="confidence", ylabel="questions")
    for axis in (plot, counts):
        axis.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _error(one: Judged, sure: NDArray[np.float64]) -> float:
    return expected_calibration_error(sure, one.right)


def _data(one: Judged) -> dict[str, Any]:
    stages: dict[str, Any] = {
        stage: {
            "temperature": temperature,
            "expected_calibration_error": _error(one, sure),
            "against_exact_match": expected_calibration_error(sure, one.exact),
            "log_loss": log_loss(sure, one.right),
            "mean_confidence": float(sure.mean()),
            "bins": [asdict(found) for found in reliability(sure, one.right)],
        }
        for stage, (temperature, sure) in one.stages().items()
    }
    return {
        "questions": len(one.right),
        "f1": 100 * float(one.right.mean()),
        "exact_match": 100 * float(one.exact.mean()),
        **stages,
    }
