"""A closer look at a few passages: which words of a question they have, part by part.

One vector for a whole passage says what it is about, not which words it has. Here every piece of
the question looks for the piece of the passage that is nearest to it (``words``), within one part:
words that answer a question stand together. ``pairs`` are those that stand side by side in both,
as the two words of a name do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

_BLOCK = 16  # pieces; a part is two blocks, as the table was trained


@dataclass(frozen=True)
class Matches:
    """What a closer look at each passage found; at most 1 each."""

    parts: Floats
    """The cosine of the question with the best part."""
    words: Floats
    """How near the question's pieces are to those of the part that has them best."""
    pairs: Floats
    """How near the question's pairs come to two pieces that stand side by side."""


class PieceMatcher:
    """A question, ready to be looked for in texts."""

    def __init__(
        self,
        vector: Floats,
        pieces: Sequence[int],
        weights: Floats,
        table: Floats,
        lengths: Floats,
    ) -> None:
        """The question's vector, its pieces and their weights; the table, its rows' lengths."""
        self._vector = vector
        self._pieces = np.array(pieces, np.int64)
        self._table = table
        self._lengths: Floats = np.maximum(lengths, np.float32(1e-6))
        own_lengths = self._lengths[self._pieces]
        worth = weights * own_lengths
        self._worth = _shares(worth)
        self._pair_worth = _shares(worth[:-1] + worth[1:])
        self._directions: Floats = table[self._pieces] / own_lengths[:, None]

    def match(self, texts: Sequence[Sequence[int]]) -> Matches:
        """Look at texts, given as pieces in order."""
        matches = Matches(*(np.zeros(len(texts), np.float32) for _ in range(3)))
        rows = [row for row, pieces in enumerate(texts) if len(pieces)]
        if not rows or not len(self._pieces):
            return matches

        blocks = Blocks.of([texts[row] for row in rows])
        matches.parts[rows] = self._match_parts(blocks)
        cosines = self._cosines(blocks)
        matches.words[rows] = self._match_words(cosines, blocks)
        matches.pairs[rows] = self._match_pairs(cosines, blocks)
        return matches

    def _match_parts(self, blocks: Blocks) -> Floats:
        sums = np.add.reduceat(self._table[blocks.pieces], blocks.starts, axis=0)
        parts = sums.copy()
        parts[1:] += sums[:-1] * blocks.goes_on[1:, None]
        lengths = np.maximum(np.linalg.norm(parts, axis=1), 1e-6)
        return blocks.best(parts @ self._vector / lengths)

    def _cosines(self, blocks: Blocks) -> Floats:
        """Of every piece of the question with every piece of the texts."""
        different, place = np.unique(blocks.pieces, return_inverse=True)
        products = self._directions @ self._table[different].T
        products /= self._lengths[different]
        return products[:, place]

    def _match_words(self, cosines: Floats, blocks: Blocks) -> Floats:
        nearest = np.maximum.reduceat(cosines, blocks.starts, axis=1)
        # A block that begins a text has none before it.
        before = np.where(blocks.goes_on[1:], nearest[:, :-1], -1.0)
        parts = nearest.copy()
        parts[:, 1:] = np.maximum(nearest[:, 1:], before)
        return blocks.best(self._worth @ parts)

    def _match_pairs(self, cosines: Floats, blocks: Blocks) -> Floats:
        if len(self._pieces) < 2:
            return np.zeros(len(blocks.texts), np.float32)
        # A pair is as near as the one of its two that is farther.
        pairs = np.zeros((len(cosines) - 1, len(blocks.pieces)), np.float32)
        pairs[:, :-1] = np.minimum(cosines[:-1, :-1], cosines[1:, 1:])
        pairs[:, ~blocks.has_next] = 0.0
        nearest: Floats = np.maximum.reduceat(pairs, blocks.first_pieces, axis=1)
        return self._pair_worth @ nearest


@dataclass(frozen=True)
class Blocks:
    """The pieces of some texts, one text after the other, in blocks that end with their text."""

    pieces: Numbers
    first_pieces: Numbers
    """Where each text begins."""
    starts: Numbers
    """Where each block begins."""
    texts: Numbers
    """The first block of each text."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Blocks:
        """Texts that have at least one piece each."""
        first_pieces: list[int] = []
        first_blocks: list[int] = []
        starts: list[int] = []
        pieces: list[int] = []
        for text in texts:
            begin = len(pieces)
            first_pieces.append(begin)
            first_blocks.append(len(starts))
            pieces.extend(text)
            starts.extend(range(begin, len(pieces), _BLOCK))
        return cls(
            np.array(pieces),
            np.array(first_pieces),
            np.array(starts),
            np.array(first_blocks),
        )

    @property
    def goes_on(self) -> NDArray[np.bool_]:
        """Whether each block has another one of its text before it."""
        flags = np.ones(len(self.starts), bool)
        flags[self.texts] = False
        return flags

    @property
    def has_next(self) -> NDArray[np.bool_]:
        """Whether each piece has another one of its text after it."""
        flags = np.ones(len(self.pieces), bool)
        flags[self.first_pieces[1:] - 1] = False
        flags[-1] = False
        return flags

    def best(self, values: Floats) -> Floats:
        """The largest value of a block in each text."""
        largest: Floats = np.maximum.reduceat(values, self.texts)
        return largest


def _shares(worth: Floats) -> Floats:
    return worth / max(float(worth.sum()), 1e-9)
