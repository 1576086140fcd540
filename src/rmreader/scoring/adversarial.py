"""The score of AddSent and AddOneSent (Jia & Liang, 2017), by the rule of its authors' script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmreader.data.squad import why_none
from rmreader.errors import UserError
from rmreader.scoring.squad import Score, score_question

if TYPE_CHECKING:
    from rmreader.data.squad import Dataset


@dataclass(frozen=True)
class AdversarialScore:
    """Averages over the originals, in percent, each at its worst variant; ``clean`` is the score unattacked."""

    exact_match: float
    f1: float
    total: int
    missing: int
    attacked: int  # originals that have a variant
    clean: Score

    def tree(self) -> dict[str, float]:
        """As plain data, the unattacked score beside it."""
        clean = {"clean_exact_match": self.clean.exact_match, "clean_f1": self.clean.f1}
        return {"exact_match": self.exact_match, "f1": self.f1, "total": self.total, **clean}


def original(id: str) -> str:
    """The question that a row comes from: ids read ``original`` or ``original-variant``."""
    return id.partition("-")[0]


def score_adversarial(dataset: Dataset, predictions: Mapping[str, str]) -> AdversarialScore:
    """The lowest F1 over the variants of each original, with that variant's exact match.

    The unattacked row counts only for an original that has no variant. Among equally low variants the first in the
    file gives the exact match, as in the authors' script.
    """
    clean, worst = twins(dataset, predictions)
    if not clean and not worst:
        raise UserError(f"{dataset.file or 'the data set'}: it holds no question to score{why_none(dataset.problems)}.")
    absent = [question.id for _, question in dataset.questions() if question.id not in predictions]
    counted = clean | worst
    unattacked = Score(*_percent(clean), len(clean), sum(id in clean for id in absent))
    return AdversarialScore(*_percent(counted), len(counted), len(absent), len(worst), unattacked)


def twins(
    dataset: Dataset, predictions: Mapping[str, str]
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Exact match and F1 of each original as it is, and at the worst of its variants where it has any."""
    clean: dict[str, tuple[float, float]] = {}
    worst: dict[str, tuple[float, float]] = {}
    for _, question in dataset.questions():
        row, root = score_question(question, predictions), original(question.id)
        if question.id == root:
            clean[root] = row
        elif root not in worst or row[1] < worst[root][1]:
            worst[root] = row
    return clean, worst


def _percent(rows: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """Mean exact match and F1 in percent."""
    count = max(len(rows), 1)
    return 100 * sum(em for em, _ in rows.values()) / count, 100 * sum(overlap for _, overlap in rows.values()) / count
