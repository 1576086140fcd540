"""Where readers are right: by type of question, length of passage and answer, and with or without a planted sentence.

A training keeps the F1 of every dev question in a byte, so that all of this is made of kept lines.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.data.squad import Dataset, read_squad
from rmreader.scoring.adversarial import twins
from rmreader.scoring.squad import score_question
from rmreader.text.tokens import tokenize

TYPES = ("how many", "how much", "how long", "how", "who", "whom", "whose", "when", "where", "why", "which", "what")
PASSAGES, ANSWERS = (0, 100, 150, 200, 300), (1, 2, 3, 5, 8)
"""Where each group of lengths begins, in words."""
_TYPE = re.compile(rf"\b({'|'.join(TYPES)})\b")
KINDS = {
    "question": (*TYPES, "other"),
    "passage": tuple(f"from {words} words" for words in PASSAGES),
    "answer": tuple(f"from {words} words" for words in ANSWERS),
}


def questions_of(path: Path) -> dict[str, str]:
    """By kind of group, the group of every question of a file."""
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for article in read_squad(path).articles:
        for paragraph in article.paragraphs:
            words = bisect_right(PASSAGES, len(tokenize(paragraph.context).words)) - 1
            for question in paragraph.questions:
                asked = _TYPE.search(question.text.lower())
                lengths = [len(tokenize(answer.text).words) for answer in question.answers]
                found["question"].append(TYPES.index(asked[1]) if asked else len(TYPES))
                found["passage"].append(words)
                found["answer"].append(max(0, bisect_right(ANSWERS, min(lengths, default=0)) - 1))
    return {kind: pack(places) for kind, places in found.items()}


def each(dataset: Dataset, texts: Mapping[str, str]) -> str:
    """The F1 of every question, packed."""
    return pack(round(255 * score_question(question, texts)[1]) for _, question in dataset.questions())


def each_twin(dataset: Dataset, texts: Mapping[str, str]) -> list[str]:
    """The F1 of every attacked original as it is and at its worst, packed."""
    clean, worst = twins(dataset, texts)
    return [pack(round(255 * side[root][1]) for root in worst if root in clean) for side in (clean, worst)]


def pack(values: Iterable[int]) -> str:
    """Small numbers as text, a byte each before they are compressed."""
    return b64encode(zlib.compress(bytes(values), 9)).decode("ascii")


def unpack(text: str) -> NDArray[np.uint8]:
    """What was packed."""
    return np.frombuffer(zlib.decompress(b64decode(text)), np.uint8)
