"""The groups that questions fall into, and the F1 of every question in a byte."""

import re
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

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
# The words with which each group begins; of several answers, those of the shortest count.
_PASSAGE_WORDS = (0, 100, 150, 200, 300)
_ANSWER_WORDS = (1, 2, 3, 5, 8)


GROUPS = {
    "question": (*TYPES, "other"),
    "passage": (
        "0 to 99 words",
        "100 to 149 words",
        "150 to 199 words",
        "200 to 299 words",
        "300 words or more",
    ),
    "answer": (
        "1 word",
        "2 words",
        "3 to 4 words",
        "5 to 7 words",
        "8 words or more",
    ),
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
    places: dict[str, list[int]] = {kind: [] for kind in GROUPS}
    lengths: dict[int, int] = {}  # of paragraphs, which have many questions each
    for paragraph, question in dataset.questions():
        if id(paragraph) not in lengths:
            lengths[id(paragraph)] = len(tokenize(paragraph.context).words)
        answers = [len(tokenize(answer.text).words) for answer in question.answers]
        places["question"].append(_type_of(question.text))
        places["passage"].append(_group_of(lengths[id(paragraph)], _PASSAGE_WORDS))
        places["answer"].append(_group_of(min(answers, default=0), _ANSWER_WORDS))
    return {kind: pack(values) for kind, values in places.items()}


def _type_of(question: str) -> int:
    """The place of a question's first question word among the types."""
    match = _TYPE.search(question.lower())
    return TYPES.index(match[1]) if match else len(TYPES)


def _group_of(words: int, begins: Sequence[int]) -> int:
    """The place of the group that so many words fall into; fewer than the first are in it."""
    return max(0, bisect_right(begins, words) - 1)


def each_question(dataset: Dataset, texts: Mapping[str, str]) -> str:
    """The F1 of every question, packed."""
    values = []
    for _, question in dataset.questions():
        _, f1 = score_question(question, texts)
        values.append(round(255 * f1))
    return pack(values)


def each_twin(dataset: Dataset, texts: Mapping[str, str]) -> str:
    """What its worst variant does to each attacked original, as a place in ``TWINS``, packed."""
    clean, worst = twins(dataset, texts)
    places = []
    for root, (_, attacked_f1) in worst.items():
        if root in clean:
            _, clean_f1 = clean[root]
            places.append(2 * (clean_f1 < 0.5) + (attacked_f1 < 0.5))
    return pack(places)


def pack(values: Iterable[int]) -> str:
    """Small numbers as text, a byte each before they are compressed."""
    return b64encode(zlib.compress(bytes(values), 9)).decode("ascii")


def unpack(text: str) -> NDArray[np.uint8]:
    """What was packed."""
    return np.frombuffer(zlib.decompress(b64decode(text)), np.uint8)
