"""How well a passage fits a question: by its words and by its meaning, as every index scores.

    fit   = MEANING · cosine + (1 - MEANING) · words
    score = what a closer look adds up to, by the weights below

Words alone miss a passage that says it otherwise ("boss", "you report to"); meaning alone confuses
names and numbers. The fit of all passages puts some forward. Of these each part is looked at, word
by word (matching.py): a question is about a sentence or two. What the passages beside it say counts
a little, since a document names at its beginning what it is about.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rmreader.documents.embedding import Floats, TextEncoder

# Chosen on everyday texts (`held`) and on articles of SQuAD that the table did not learn from:
# log/2026-11-18-folders.md.
MEANING = 0.6
FULL = 0.7  # BM25 counts in full from this share of what the question's words could have on
PUT_FORWARD = 200  # passages that the words put forward, and as many by the vectors
LOOKED_AT = 100  # passages that a closer look is taken at

# What counts in the score of a passage; the sum is 1.
_WHOLE = 0.17  # the cosine of the whole passage
_PART = 0.16  # the cosine of its best part
_NEAR = 0.34  # how near the words of a part come to those of the question
_PAIRS = 0.13  # how near its pairs of words come to those of the question
_WORDS = 0.11  # BM25
_BESIDE = 0.09  # how the passages beside it fit

_K1 = 1.2  # of BM25, as SQLite and OpenSearch have it


def fit(cosine: Floats, words: Floats) -> Floats:
    """Of passages, by the cosines and the shares of words."""
    return MEANING * cosine + (1 - MEANING) * words


@dataclass(frozen=True)
class Found:
    """What a search in an index put forward; a closer look at the passages is taken afterwards.

    A writer has to wait for whoever reads the file, so that nothing is done there but reading.
    """

    ids: list[Any]
    words: Floats
    whole: Floats
    around: Floats
    question: str | None
    """None where there is nothing but the words."""

    def scores(self, texts: Sequence[str], encoder: TextEncoder) -> Floats:
        """Of the passages, whose texts are these."""
        if self.question is None:
            return self.words
        matches = encoder.match(self.question, texts)
        by_meaning = _WHOLE * self.whole + _PART * matches.parts
        by_words = _NEAR * matches.words + _PAIRS * matches.pairs + _WORDS * self.words
        scores: Floats = by_meaning + by_words + _BESIDE * self.around
        return scores


@dataclass(frozen=True)
class Fits:
    """How passages fit a question, one value each."""

    words: Floats
    """BM25 as a share."""
    whole: Floats
    """The cosine of the whole passage."""
    both: Floats

    @classmethod
    def of(cls, bm25: Floats, cosine: Floats, counts: Iterable[int], passages: int) -> Fits:
        """``counts`` says in how many of all ``passages`` each word of the question is."""
        words = _share_of_words(bm25, _word_worth(counts, passages))
        return cls(words, cosine, fit(cosine, words))


def _word_worth(counts: Iterable[int], passages: int) -> float:
    """About the BM25 of a passage with all words of a question."""
    worth = 0.0
    for count in counts:
        rarity = math.log(max((passages - count + 0.5) / (count + 0.5), 1.0))
        worth += (_K1 + 1) * rarity
    return worth


def _share_of_words(bm25: Floats, worth: float) -> Floats:
    """BM25 of passages as a share: of the best, unless that one has few of the words, too."""
    full = max(float(bm25.max(initial=0.0)), FULL * worth)
    return bm25 / full if full > 0 else bm25
