"""Search in an SQLite index: by words (BM25 of FTS5) and by meaning (vectors), see relevance.py.

Words and vectors each put passages forward. A closer look at the best of these is
taken afterwards.
"""

from __future__ import annotations

import sqlite3

import numpy as np
from numpy.typing import NDArray

from rmreader.documents.embedding import Floats, TextEncoder
from rmreader.documents.index import content_words
from rmreader.documents.relevance import LOOKED_AT, PUT_FORWARD, Fits, Found
from rmreader.documents.sqlite_vectors import StoredVectors

ABOUT = 1.0  # what a word in the headings counts, against one in the text

Scores = dict[int, float]
"""Of passages, by their ids."""
Rows = NDArray[np.int64]
"""Places of passages among the stored vectors."""


def search(
    base: sqlite3.Connection,
    question: str,
    count: int,
    encoder: TextEncoder,
    stored: StoredVectors | None,
) -> Found:
    """Passages that may be the best; by words alone while some have no vectors."""
    words = content_words(question)
    expression = " OR ".join(f'"{word}"' for word in words)
    found = _search_words(base, expression, max(count, PUT_FORWARD))
    if stored is None or not stored.has(found):
        best = _best(_relative(found), count)
        shares = np.array(list(best.values()), np.float32)
        return Found(
            list(best),
            shares,
            shares,
            shares,
            None,
        )
    vector = encoder.encode_question(question)
    similarity = stored.vectors.similarity(vector)
    bm25 = np.zeros(len(stored.ids), np.float32)
    bm25[stored.rows(found)] = list(found.values())
    fits = Fits.of(bm25, similarity, _count_passages(base, words), len(stored.ids))
    rows = _candidates(stored, found, fits, max(count, LOOKED_AT))
    ids = stored.ids[rows].tolist()
    around = stored.around(fits.both)[rows]
    return Found(
        ids,
        fits.words[rows],
        fits.whole[rows],
        around,
        question,
    )


def _search_words(base: sqlite3.Connection, expression: str, limit: int) -> Scores:
    if not expression:
        return {}
    rows = base.execute(
        f"SELECT rowid, -bm25(words, 1.0, {ABOUT}) AS score FROM words WHERE words MATCH ? "
        "ORDER BY score DESC, rowid LIMIT ?",
        (expression, limit),
    )
    return _checked(rows.fetchall())


def _count_passages(base: sqlite3.Connection, words: list[str]) -> list[int]:
    """How many passages have each of these words."""
    query = "SELECT count(*) FROM words WHERE words MATCH ?"
    return [int(base.execute(query, (f'"{word}"',)).fetchone()[0]) for word in words]


def _checked(rows: list[tuple[object, object]]) -> Scores:
    """Scores out of a file that may be damaged."""
    scores: Scores = {}
    for id, score in rows:
        if type(id) is not int or type(score) is not float:
            raise ValueError("a score of the search is not a number")
        if not 0 <= score < 1e6:
            raise ValueError("a score of the search is out of bounds")
        scores[id] = score
    return scores


def _relative(scores: Scores) -> Scores:
    """Scores as shares of the best one."""
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return dict.fromkeys(scores, 0.0)
    return {id: score / best for id, score in scores.items()}


def _candidates(stored: StoredVectors, found: Scores, fits: Fits, count: int) -> Rows:
    """The passages that fit best, of those that words or vectors put forward."""
    by_meaning = _largest(fits.whole, max(count, PUT_FORWARD))
    rows = np.union1d(stored.rows(found), by_meaning)
    return rows[_largest(fits.both[rows], count)]


def _best(scores: Scores, count: int) -> Scores:
    some = [(id, score) for id, score in scores.items() if score > 0]
    some.sort(key=lambda item: (-item[1], item[0]))
    return dict(some[:count])


def _largest(values: Floats, count: int) -> Rows:
    """Where the largest values are."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, -count)[-count:]
