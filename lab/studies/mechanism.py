"""What reattention does inside a trained reader: γ, the size of γẼ, and the answers without it.

Setting every γ to 0 in a trained network takes the terms γẼ and γB̃ of Eq. 4-5 away and leaves the
rest as it is. It is the direct effect; what training with reattention does to the other weights is
the ablation's (``study ablation``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab.results import Line, keep
from lab.studies.divergences import divergences_of, moved, pairs_of
from lab.studies.readers import predictions, questions, reader_folder
from lab.studies.report import Report
from lab.studies.tables import reattention_table
from rmreader.core.console import progress
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.core.version import commit
from rmreader.data.squad import Dataset
from rmreader.readers.folder import Folder, open_folder
from rmreader.reading.engine.engines import EncoderInput, Rounds
from rmreader.reading.reader import Reader
from rmreader.scoring.attention import Floats, attention
from rmreader.scoring.squad import score
from rmreader.training.engine import TorchEngine


@dataclass(frozen=True)
class Size:
    """One matrix of a round after the first, as means over the words of a passage."""

    overlap: float
    """Ẽ or B̃: the overlap of the attentions of the round before."""
    added: float
    """How far γẼ differs within a column: only that can move a softmax."""
    logits: float
    """How far the logits differ within a column."""
    moved: float
    """Share of a column's attention that γẼ moves (total variation)."""


def study_reattention(
    models: Sequence[str],
    data: Path,
    device: str | None = None,
    limit: int = 0,
    gamma: float = 0.0,
    keep_to: Path | None = None,
) -> Report:
    """Every reader as it is and with all γ at ``gamma``, on the first ``limit`` questions."""
    dataset = _first(questions(data), limit)
    lines: list[Line] = []
    for model in models:
        folder = open_folder(reader_folder(model))
        if not folder.recipe.network.reattention:
            raise UserError(f"{model}: has no reattention, so there is no γ to set; give another.")
        line: Line = {
            "kind": "reattention",
            "study": "reattention",
            "row": model,
            "setting": f"{data.name} {file_sha256(data)[:10]}, first {limit or 'all'}",
            "commit": commit(),
            "gammas": gammas_of(folder),
            **_attentions(folder, pairs_of(data, limit), device, gamma),
            **_answers(folder, dataset, device, gamma),
        }
        lines.append(line)
    keep(keep_to, lines)
    return reattention_table(lines, gamma)


def gammas_of(folder: Folder) -> dict[str, float]:
    """γ of E and of B in every block after the first."""
    weights = folder.weights()
    found = {}
    for block in range(1, folder.recipe.network.blocks):
        for letter in "EB":
            found[f"{letter}{block + 1}"] = float(weights[f"aligner.blocks.{block}.gamma_{letter}"])
    return found


def _attentions(
    folder: Folder,
    pairs: Sequence[EncoderInput],
    device: str | None,
    gamma: float,
) -> dict[str, Any]:
    """The size of every γẼ and γB̃, how even the first B is, and how far rounds are apart with and
    without them, over all questions."""
    network = folder.recipe.network
    gammas = gammas_of(folder)
    by_block = [
        [gammas[f"{letter}{block + 1}"] for letter in "EB"] for block in range(1, network.blocks)
    ]
    engine = TorchEngine(folder, device)
    sizes: dict[str, list[Size]] = {name: [] for name in gammas}
    entropies: list[float] = []
    as_is: list[dict[str, float]] = []
    other: list[dict[str, float]] = []
    with progress(f"attention of {folder.path.name}", 2 * len(pairs), "questions") as advance:
        for rounds in engine.attend_many(pairs, batch_size=32):
            for name, size in sizes_of(rounds, by_block, network.diagonal).items():
                sizes[name].append(size)
            entropies.append(evenness(rounds[0][1]))
            as_is.append(_apart(rounds))
            advance()
        set_gammas(engine, gamma)
        for rounds in engine.attend_many(pairs, batch_size=32):
            other.append(_apart(rounds))
            advance()
    return {
        "sizes": {name: _mean(values) for name, values in sizes.items()},
        "entropy": float(np.mean(entropies)),
        "divergences": _compared(as_is, other),
    }


def _apart(rounds: Rounds) -> dict[str, float]:
    """The rows of the paper's Table 5 that one reader has, for one question."""
    return {name: values[0] for name, values in divergences_of([rounds]).items()}


def _compared(
    as_is: Sequence[Mapping[str, float]],
    other: Sequence[Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """By row of Table 5 the mean of both, and that of their difference with its standard error."""
    rows = {}
    for name in as_is[0]:
        before = np.array([values[name] for values in as_is])
        after = np.array([values[name] for values in other])
        gain = before - after
        rows[name] = {
            "as_is": float(before.mean()),
            "other": float(after.mean()),
            "gain": float(gain.mean()),
            "error": float(gain.std() / np.sqrt(len(gain))),
        }
    return rows


def sizes_of(
    rounds: Rounds,
    gammas: Sequence[Sequence[float]],
    diagonal: str,
) -> dict[str, Size]:
    """The size of what reattention adds to E and B of one question, by matrix and round."""
    found = {}
    for block, made in enumerate(moved(rounds, gammas, diagonal)):
        for k, letter in enumerate("EB"):
            past = made[k].past
            change = made[k].change
            if past is None or change is None:  # the first round
                continue
            added = gammas[block - 1][k] * past
            found[f"{letter}{block + 1}"] = Size(
                overlap=float(past.mean()),
                added=float(np.ptp(added, axis=0).mean()),
                logits=float(np.ptp(rounds[block][k], axis=0).mean()),
                moved=float(np.abs(change).sum(axis=0).mean() / 2),
            )
    return found


def evenness(logits: Floats) -> float:
    """The entropy of each column's attention as a share of its maximum; 1 is uniform."""
    p = attention(logits)
    rows = len(p)
    if rows < 2:
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p), 0.0)
    return float((-terms.sum(axis=0) / np.log(rows)).mean())


def _mean(sizes: Sequence[Size]) -> dict[str, float]:
    """The mean of each measure over questions."""
    names = Size.__dataclass_fields__
    return {name: float(np.mean([getattr(size, name) for size in sizes])) for name in names}


def _answers(
    folder: Folder,
    dataset: Dataset,
    device: str | None,
    gamma: float,
) -> dict[str, Any]:
    """Scores as the reader is and with every γ at ``gamma``, and how many answers change."""
    engine = TorchEngine(folder, device)
    reader = Reader(folder, engine)
    as_is = predictions(reader, dataset)
    set_gammas(engine, gamma)
    other = predictions(reader, dataset)
    return {
        "as_is": score(dataset, as_is).tree(),
        "other": score(dataset, other).tree(),
        "changed": sum(as_is[name] != other[name] for name in as_is),
    }


def set_gammas(engine: TorchEngine, gamma: float) -> None:
    """Set every γ of the aligner in memory; the reader's files stay as they are.

    A mix of contextual layers has a weight called γ too, which stays.
    """
    with torch.no_grad():
        for weight_name, weight in engine.network.aligner.named_parameters():
            if "gamma" in weight_name:
                weight.fill_(gamma)


def _first(dataset: Dataset, limit: int) -> Dataset:
    """The first questions of a data set; all for 0."""
    if not limit:
        return dataset
    left = limit
    articles = []
    for article in dataset.articles:
        paragraphs = []
        for paragraph in article.paragraphs:
            chosen = paragraph.questions[:left]
            left -= len(chosen)
            if chosen:
                paragraphs.append(replace(paragraph, questions=chosen))
        if paragraphs:
            articles.append(replace(article, paragraphs=tuple(paragraphs)))
    return replace(dataset, articles=tuple(articles))
