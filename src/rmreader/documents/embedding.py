"""Vectors of texts, for a search by meaning: the sum of a text's piece vectors, of length one.

The table is trained for it (``lab/retrieval/``): what a piece counts is the length of its vector.
A question has other weights for the same vectors: "who" says much there and nothing in a text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.documents.matching import Matches, PieceMatcher
from rmreader.text.vectors import SubwordTable, map_safetensors

Floats = NDArray[np.float32]

SHIPPED_TABLE = (
    Path(__file__).resolve().parent.parent / "readers/shipped/retrieval/table.safetensors"
)
_WORD = re.compile(r"\w+")
_MOST_PIECES = 2000  # different ones, of one text
_LONGEST = 4000  # pieces of a text that a closer look is taken at
_LONGEST_QUESTION = 100  # pieces of a question that are looked for
_BLOCK = 4096  # passages that are compared at once: they stay in the processor's cache


@dataclass(frozen=True)
class Vectors:
    """Vectors in eight bits: row k is ``scales[k] * codes[k]``."""

    codes: NDArray[np.int8]
    scales: Floats
    source: str
    """The table they were made with: vectors of two tables cannot be compared."""

    def __len__(self) -> int:
        return len(self.scales)

    def similarity(self, vector: Floats) -> Floats:
        """The cosine of each with a vector of length one."""
        products = np.empty(len(self), np.float32)
        for begin in range(0, len(self), _BLOCK):
            block = self.codes[begin : begin + _BLOCK].astype(np.float32)
            products[begin : begin + _BLOCK] = block @ vector
        return products * self.scales


class TextEncoder:
    """A table of piece vectors, and what it makes of texts."""

    def __init__(self, path: Path = SHIPPED_TABLE) -> None:
        try:
            tensors = map_safetensors(path)
            vectors = tensors["vectors"].astype(np.float32) * tensors["scale"][:, None]
            question_weights = tensors["weights"].astype(np.float32)
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{path}: not a table of vectors ({error}); install rmreader again."
            ) from None

        self._pieces = SubwordTable.load("pieces")
        if not len(self._pieces.pieces) == len(vectors) == len(question_weights):
            raise UserError(f"{path}: not a table of these pieces; install rmreader again.")

        self._vectors: Floats = vectors
        self._lengths: Floats = np.linalg.norm(vectors, axis=1)
        self._question_weights: Floats = question_weights
        self.dim = int(vectors.shape[1])
        self.source = hashlib.sha256(path.read_bytes()).hexdigest()[:16]

    def encode_question(self, question: str) -> Floats:
        """The vector of a question; of length one, or zero if no word of it is known."""
        counts = split_pieces(self._pieces, question)
        pieces = np.fromiter(counts.keys(), np.int64, len(counts))
        weights = np.sqrt(np.fromiter(counts.values(), np.float32, len(counts)))
        return _unit((weights * self._question_weights[pieces]) @ self._vectors[pieces])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts."""
        codes = np.zeros((len(texts), self._vectors.shape[1]), np.int8)
        scales = np.zeros(len(texts), np.float32)
        for row, text in enumerate(texts):
            counts = split_pieces(self._pieces, text)
            pieces = np.fromiter(counts.keys(), np.int64, len(counts))
            weights = np.sqrt(np.fromiter(counts.values(), np.float32, len(counts)))
            vector = _unit(weights @ self._vectors[pieces])
            scale = max(float(np.abs(vector).max()), 1e-6) / 127
            codes[row] = np.round(vector / scale)
            scales[row] = scale

        return Vectors(codes, scales, self.source)

    def match(self, question: str, texts: Sequence[str]) -> Matches:
        """A closer look at a few texts, piece by piece."""
        pieces = split_text(self._pieces, question)[:_LONGEST_QUESTION]
        matcher = PieceMatcher(
            self.encode_question(question),
            pieces,
            self._question_weights[pieces],
            self._vectors,
            self._lengths,
        )
        return matcher.match([split_text(self._pieces, text)[:_LONGEST] for text in texts])


@cache
def shipped_encoder() -> TextEncoder:
    """The encoder of the table that ships."""
    return TextEncoder()


def split_text(table: SubwordTable, text: str) -> list[int]:
    """The pieces of a text in order; punctuation and words without pieces are left out."""
    unknown = table.split("")
    found: list[int] = []
    for pieces in table.split_all(_WORD.findall(text)):
        if pieces != unknown:
            found.extend(pieces)

    return found


def split_pieces(table: SubwordTable, text: str) -> dict[int, int]:
    """How often each piece is in a text."""
    return dict(Counter(split_text(table, text)).most_common(_MOST_PIECES))


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector
