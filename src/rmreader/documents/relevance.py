"""How well a passage fits a question: by its words and by its meaning, as every index scores.

    fit   = MEANING · cosine + (1 - MEANING) · words
    score = (fit + AROUND · fit of the passages beside it) / (1 + AROUND)

Words alone miss a passage that says it otherwise ("boss", "you report to"); meaning alone confuses
names and numbers. The cosine is that of the whole passage and of its best part: a question is
about a sentence or two. What its neighbours say counts a little, since a document names at its
beginning what it is about.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Chosen on everyday texts (`held`) and on articles of SQuAD that the table did not learn from:
# log/2026-11-18-folders.md.
MEANING = 0.6
IN_PART = 0.5  # what the best part counts in the cosine, against the whole passage
AROUND = 0.2
FULL = 0.7  # BM25 counts in full from this share of what the question's words could have on
REFINED = 100  # passages whose parts are looked at
BY_WORDS = 200  # passages that the words put forward
BY_MEANING = 200  # passages that the vectors put forward

_K1 = 1.2  # of BM25, as SQLite and OpenSearch have it


def word_worth(counts: Iterable[int], passages: int) -> float:
    """About the BM25 of a passage with all words of a question.

    ``counts`` says in how many passages each word is.
    """
    worth = 0.0
    for count in counts:
        rarity = math.log(max((passages - count + 0.5) / (count + 0.5), 1.0))
        worth += (_K1 + 1) * rarity
    return worth


def share_of_words(bm25: Floats, worth: float) -> Floats:
    """BM25 of passages as a share: of the best, unless that one has few of the words, too."""
    full = max(float(bm25.max(initial=0.0)), FULL * worth)
    return bm25 / full if full > 0 else bm25


def fit(cosine: Floats, words: Floats) -> Floats:
    """Of passages, by the cosines and the shares of words."""
    return MEANING * cosine + (1 - MEANING) * words


def with_parts(whole: Floats, parts: Floats) -> Floats:
    """The cosines of passages, from those of the whole and of the best parts."""
    return (1 - IN_PART) * whole + IN_PART * parts


def with_neighbours(fits: Floats, around: Floats) -> Floats:
    """The scores of passages, from how they fit and how the passages beside them do."""
    share = AROUND / (1 + AROUND)
    return (1 - share) * fits + share * around
