"""Where a reader is right: the F1 of every question in a byte, and the groups that questions
fall into."""

import re
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rmreader.data.squad import Dataset
from rmreader.scoring.squad import score_question, twins
from rmreader.text.tokens import tokenize

TYPES = (
    "how many",
    "how much",
    "how long",
    "how",
    "who",
    "whom",
    "whose",
    "when",
    "where",
    "why",
    "which",
    "what",
)
_TYPE = re.compile(rf"\b({'|'.join(TYPES)})\b")
_BEGIN = {
    "passage": (0, 100, 150, 200, 300),
    "answer": (1, 2, 3, 5, 8),
}  # words, of the shortest answer


def _words(first: int, last: int) -> str:
    return f"{first} to {last} words" if last > first else f"{first} word{'s'[: first > 1]}"


GROUPS = {"question": (*TYPES, "other")} | {
    kind: (*(_words(a, b - 1) for a, b in pairwise(words)), f"{words[-1]} words or more")
    for kind, words in _BEGIN.items()
}
"""By kind, the names of the groups."""
TWINS = (
    "right with it and without",
    "right without it only",
    "right with it only",
    "wrong both times",
)
"""What a planted sentence does to a question."""


def groups_of(dataset: Dataset) -> dict[str, str]:
    """By kind, the place of every question's group among the names, packed."""
    found: dict[str, list[int]] = {kind: [] for kind in GROUPS}
    lengths: dict[int, int] = {}
    for paragraph, question in dataset.questions():
        if id(paragraph) not in lengths:
            lengths[id(paragraph)] = len(tokenize(paragraph.context).words)
        asked = _TYPE.search(question.text.lower())
        shortest = min((len(tokenize(answer.text).words) for answer in question.answers), default=0)
        found["question"].append(TYPES.index(asked[1]) if asked else len(TYPES))
        for kind, words in (("passage", lengths[id(paragraph)]), ("answer", shortest)):
            found[kind].append(max(0, bisect_right(_BEGIN[kind], words) - 1))
    return {kind: pack(places) for kind, places in found.items()}


def each_question(dataset: Dataset, texts: Mapping[str, str]) -> str:
    """The F1 of every question, packed."""
    return pack(
        round(255 * score_question(question, texts)[1]) for _, question in dataset.questions()
    )


def each_twin(dataset: Dataset, texts: Mapping[str, str]) -> str:
    """What its worst variant does to each attacked original, as a place in ``TWINS``, packed."""
    clean, worst = twins(dataset, texts)
    return pack(
        2 * (clean[root][1] < 0.5) + (row[1] < 0.5) for root, row in worst.items() if root in clean
    )


def pack(values: Iterable[int]) -> str:
    """Small numbers as text, a byte each before they are compressed."""
    return b64encode(zlib.compress(bytes(values), 9)).decode("ascii")


def unpack(text: str) -> NDArray[np.uint8]:
    """What was packed."""
    return np.frombuffer(zlib.decompress(b64decode(text)), np.uint8)
