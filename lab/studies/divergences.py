"""How far apart attentions are: the paper's Table 5 (redundancy and deficiency), and Eq. 4-5 as a
change of attention.

E is [n, m] (question rows, context columns) and B is [m, m], of one question, both unnormalised.
The paper compares the columns softmax(E_:j) and softmax(B_:j), which run over rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    """The rows of the paper's table for one question, a value per reader each, from E and B of
    all their rounds."""
    rounds = min(map(len, readers))  # that every reader has
    found: dict[str, list[float]] = {}
    for k, letter in enumerate("EB"):
        each = [redundancy([made[k] for made in own[:rounds]]) for own in readers]
        for t, values in enumerate(zip(*each, strict=True), 1):
            found[f"{letter}{t} to {letter}{t + 1}"] = list(values)
    for t in range(1, rounds if len(readers) > 1 else 1):
        found[f"E{t + 1} to E{t + 1}*"] = deficiency([own[t][0] for own in readers])
    return found


@dataclass(frozen=True)
class Moved:
    """One matrix of a round, E [n, m] or B [m, m], as attentions: each column a distribution
    over the rows."""

    attention: Floats
    past: Floats | None = None
    """Ẽ or B̃, the overlap of the attentions of the round before; None where nothing is read again."""
    change: Floats | None = None
    """The attention less what it would have been without them, everything before unchanged."""


def moved(
    rounds: Sequence[tuple[Floats, Floats]], gammas: Sequence[Sequence[float]], diagonal: str
) -> list[list[Moved]]:
    """E and B of every round of one question as attentions, and what the terms γẼ and γB̃ of Eq.
    4-5 did to them.

    ``gammas`` are those of the rounds after the first; empty without reattention.
    """
    shown = [[Moved(attention(X)) for X in made] for made in rounds]
    for t, weights in enumerate(gammas, 1):
        past_self = attention(rounds[t - 1][1])
        for k, (X, gamma) in enumerate(zip(rounds[t], weights, strict=True)):
            past = attention(rounds[t - 1][k], 1) @ past_self
            added = gamma * past
            if k == 1 and diagonal != "none":  # the indicator of Eq. 5 takes the diagonal out of B
                np.fill_diagonal(added, 0.0)
            shown[t][k] = Moved(attention(X), past, attention(X) - attention(X - added))
    return shown


def strongest(shown: Moved, count: int = 6) -> list[tuple[int, int]]:
    """The places (row, column) whose attention was changed most, up or down; none where nothing
    is read again."""
    if shown.change is None:
        return []
    order = np.argsort(-np.abs(shown.change), axis=None, kind="stable")[:count]
    return [
        (int(i), int(j)) for i, j in zip(*np.unravel_index(order, shown.change.shape), strict=True)
    ]


def pairs_of(data: Path, limit: int = 0) -> list[EncoderInput]:
    """The first questions of a file (all for 0) that have words to compare attentions on, short
    passages first."""
    asked = [
        (question.text, paragraph.context) for paragraph, question in read_squad(data).questions()
    ]
    found = [
        EncoderInput(*texts, *(tokenize(text).words for text in texts))
        for texts in asked[: limit or None]
    ]
    found = [pair for pair in found if pair.question_words and pair.context_words]
    if not found:
        raise UserError(
            f"{data}: has no questions that can be read, to compare attentions on; give other data."
        )
    return sorted(found, key=lambda pair: len(pair.context_words))


def divergences(
    readers: Sequence[Folder],
    pairs: Sequence[EncoderInput],
    device: str | None,
    batch_size: int = 32,
) -> dict[str, NDArray[np.float64]]:
    """By row of the paper's Table 5, the value of every reader on every question [readers,
    questions]."""
    from rmreader.training.engine import TorchEngine

    engines = [TorchEngine(folder, device) for folder in readers]
    found = defaultdict[str, list[list[float]]](list)
    with progress("attention", total=len(pairs), unit="questions") as advance:
        for rounds in zip(
            *(engine.attend_many(pairs, batch_size) for engine in engines), strict=True
        ):
            for name, values in divergences_of(rounds).items():
                found[name].append(values)
            advance()
    return {name: np.array(values).T for name, values in found.items()}
