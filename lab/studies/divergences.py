"""How far apart attentions are: the paper's Table 5, and Eq. 4-5 as a change of attention.

E is [n, m] (question rows, context columns) and B is [m, m], of one question, both unnormalised.
The paper compares the columns softmax(E_:j) and softmax(B_:j), which run over rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmreader.core.console import progress
from rmreader.core.errors import UserError
from rmreader.data.squad import read_squad
from rmreader.readers.folder import Folder
from rmreader.reading.engine.engines import EncoderInput
from rmreader.scoring.attention import Floats, attention, log_attention
from rmreader.text.tokens import tokenize


def spread(values: ArrayLike) -> tuple[float, float]:
    """Mean and standard deviation of per-example values; 0 of none."""
    array = np.asarray(values, np.float64)
    return (float(array.mean()), float(array.std())) if array.size else (0.0, 0.0)


def divergence(log_p: Floats, log_q: Floats) -> float:
    """KL(p ‖ q) of each column's distribution, averaged over the columns."""
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):  # -inf minus -inf where neither looks
        return float(np.where(p > 0, p * (log_p - log_q), 0.0).sum(axis=0).mean())


def redundancy(rounds: Sequence[Floats]) -> list[float]:
    """KL(round t ‖ round t+1) for each pair of adjacent rounds; higher is less redundant."""
    return [divergence(first, second) for first, second in pairwise(map(log_attention, rounds))]


def deficiency(members: Sequence[Floats]) -> list[float]:
    """KL(mean of the ensemble's attentions ‖ member) for each member; lower is less deficient.

    ``members`` hold the same round's logits from each network; the mean is taken for the true
    attention E*.
    """
    logs = [log_attention(logits) for logits in members]
    with np.errstate(divide="ignore"):
        mean = np.log(np.mean([np.exp(log) for log in logs], axis=0))
    return [divergence(mean, log) for log in logs]


def divergences_of(readers: Sequence[Sequence[tuple[Floats, Floats]]]) -> dict[str, list[float]]:
    """The rows of the paper's table for one question, from E and B of all rounds of each reader.

    A row has a value per reader.
    """
    count = min(len(rounds) for rounds in readers)  # that every reader has
    rows: dict[str, list[float]] = {}
    for k, letter in enumerate("EB"):
        by_reader = []
        for rounds in readers:
            matrices = [both[k] for both in rounds[:count]]
            by_reader.append(redundancy(matrices))
        for t, values in enumerate(zip(*by_reader, strict=True), 1):
            rows[f"{letter}{t} to {letter}{t + 1}"] = list(values)
    if len(readers) > 1:
        for t in range(1, count):
            E = [rounds[t][0] for rounds in readers]
            rows[f"E{t + 1} to E{t + 1}*"] = deficiency(E)
    return rows


@dataclass(frozen=True)
class Moved:
    """One matrix of a round, E [n, m] or B [m, m], as attentions.

    Each column is a distribution over the rows.
    """

    attention: Floats
    past: Floats | None = None
    """Ẽ or B̃, the overlap of the attentions of the round before; None in the first round."""
    change: Floats | None = None
    """The attention less what it would have been without them, everything before unchanged."""


def moved(
    rounds: Sequence[tuple[Floats, Floats]],
    gammas: Sequence[Sequence[float]],
    diagonal: str,
) -> list[list[Moved]]:
    """E and B of every round of one question as attentions, and what Eq. 4-5 did to them.

    That is what the terms γẼ and γB̃ did. ``gammas`` are those of the rounds after the first; empty
    without reattention.
    """
    attentions = []
    for E, B in rounds:
        attentions.append([Moved(attention(E)), Moved(attention(B))])
    for t, weights in enumerate(gammas, 1):
        past_self = attention(rounds[t - 1][1])
        for k, (X, gamma) in enumerate(zip(rounds[t], weights, strict=True)):
            past = attention(rounds[t - 1][k], 1) @ past_self
            added = gamma * past
            if k == 1 and diagonal != "none":  # the indicator of Eq. 5 takes the diagonal out of B
                np.fill_diagonal(added, 0.0)
            now = attention(X)
            attentions[t][k] = Moved(now, past, now - attention(X - added))
    return attentions


def strongest(matrix: Moved, count: int = 6) -> list[tuple[int, int]]:
    """The places (row, column) whose attention was changed most, up or down.

    None in a first round.
    """
    if matrix.change is None:
        return []
    order = np.argsort(-np.abs(matrix.change), axis=None, kind="stable")[:count]
    rows, columns = np.unravel_index(order, matrix.change.shape)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]


def pairs_of(data: Path, limit: int = 0) -> list[EncoderInput]:
    """The first questions of a file (all for 0) that have words, those of short passages first."""
    pairs = []
    for paragraph, question in islice(read_squad(data).questions(), limit or None):
        question_words = tokenize(question.text).words
        passage_words = tokenize(paragraph.context).words
        if question_words and passage_words:
            pair = EncoderInput(question.text, paragraph.context, question_words, passage_words)
            pairs.append(pair)
    if not pairs:
        raise UserError(
            f"{data}: has no questions that can be read, to compare attentions on; give other data."
        )
    return sorted(pairs, key=lambda pair: len(pair.context_words))


def divergences(
    readers: Sequence[Folder],
    pairs: Sequence[EncoderInput],
    device: str | None,
    batch_size: int = 32,
) -> dict[str, NDArray[np.float64]]:
    """By row of the paper's Table 5, the value of every reader on every question.

    Values are [readers, questions].
    """
    from rmreader.training.engine import TorchEngine

    engines = [TorchEngine(folder, device) for folder in readers]
    attended = [engine.attend_many(pairs, batch_size) for engine in engines]
    rows: defaultdict[str, list[list[float]]] = defaultdict(list)
    with progress("attention", total=len(pairs), unit="questions") as advance:
        for rounds in zip(*attended, strict=True):
            for name, values in divergences_of(rounds).items():
                rows[name].append(values)
            advance()
    return {name: np.array(values).T for name, values in rows.items()}
