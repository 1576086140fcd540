"""The attentions of trained readers on the questions of a file, as the KL divergences of the paper's Table 5."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.console import progress
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.learning.engine import TorchEngine
from rmreader.learning.setup import pick_device
from rmreader.readers.folder import Folder
from rmreader.reading.running.engines import Pair
from rmreader.scoring.attention import divergences_of
from rmreader.text.tokens import tokenize

_CELLS = 1 << 26  # of a round's self attention in one batch, at most


def pairs_of(data: Path, limit: int = 0) -> list[Pair]:
    """The first questions of a file (all for 0) that have words to compare attentions on, short passages first."""
    asked = [(question.text, paragraph.context) for paragraph, question in read_squad(data).questions()]
    found = [Pair(*texts, *(tokenize(text).words for text in texts)) for texts in asked[: limit or None]]
    found = [pair for pair in found if pair.question_words and pair.context_words]
    if not found:
        raise UserError(f"{data}: has no questions that can be read, to compare attentions on; give other data.")
    return sorted(found, key=lambda pair: len(pair.context_words))


def divergences(
    readers: Sequence[Folder], pairs: Sequence[Pair], device: str | None, batch_size: int = 32
) -> dict[str, NDArray[np.float64]]:
    """By row of the table, the value of every reader on every question [readers, questions]."""
    engines = [TorchEngine(folder, str(pick_device(device))) for folder in readers]
    found, begin = defaultdict[str, list[list[float]]](list), 0
    with progress("attention", total=len(pairs), unit="questions") as advance:
        while begin < len(pairs):
            longest = len(pairs[begin : begin + batch_size][-1].context_words)
            batch = pairs[begin : begin + max(1, min(batch_size, _CELLS // longest**2))]
            for rounds in zip(*(engine.attend_many(batch) for engine in engines), strict=True):
                for name, values in divergences_of(rounds).items():
                    found[name].append(values)
            begin += len(batch)
            advance(len(batch))
    return {name: np.array(values).T for name, values in found.items()}
