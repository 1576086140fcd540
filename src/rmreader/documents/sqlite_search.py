"""Search in an SQLite index: by words (BM25 of FTS5) and by meaning (cosine of vectors), mixed.

The score of a passage is  MEANING · cosine + (1 - MEANING) · BM25 / best BM25.  Words alone miss a
passage that says it otherwise ("boss", "you report to"); meaning alone confuses names and numbers.
"""

from __future__ import annotations

import sqlite3

import numpy as np
from numpy.typing import NDArray

from rmreader.documents.embedding import TextEncoder
from rmreader.documents.index import content_words
from rmreader.documents.sqlite_vectors import StoredVectors

MEANING = 0.6  # share of the cosine in the score
ABOUT = 1.0  # what a word in the headings counts, against one in the text
_BY_WORDS = 200  # passages that the words put forward
_BY_MEANING = 100  # passages that the vectors put forward

Scores = dict[int, float]
"""Of passages, by their ids."""


def search(
    base: sqlite3.Connection,
    question: str,
    count: int,
    encoder: TextEncoder,
    stored: StoredVectors | None,
) -> Scores:
    """The best passages, best first; by words alone if there are no vectors."""
    words = content_words(question)
    expression = " OR ".join(f'"{word}"' for word in words)
    by_words = _search_words(base, expression, max(count, _BY_WORDS))
    if stored is None or len(stored.ids) == 0:
        return _best(_relative(by_words), count)
    similarity = stored.vectors.similarity(encoder.encode_question(question))
    nearest = _largest(similarity, max(count, _BY_MEANING))
    # A passage that the vectors put forward may have words of the question, too.
    ids = stored.ids[nearest].tolist()
    new = [id for id in ids if id not in by_words]
    by_words.update(_score_words(base, expression, new))
    scores = _mix(stored, similarity, nearest, _relative(by_words))
    return _best(scores, count)


def _search_words(base: sqlite3.Connection, expression: str, limit: int) -> Scores:
    if not expression:
        return {}
    rows = base.execute(
        f"SELECT rowid, -bm25(words, 1.0, {ABOUT}) AS score FROM words WHERE words MATCH ? "
        "ORDER BY score DESC, rowid LIMIT ?",
        (expression, limit),
    )
    return _checked(rows.fetchall())


def _score_words(base: sqlite3.Connection, expression: str, ids: list[int]) -> Scores:
    """BM25 of these passages, as far as they have a word of the question."""
    if not expression or not ids:
        return {}
    marks = ", ".join("?" * len(ids))
    rows = base.execute(
        f"SELECT rowid, -bm25(words, 1.0, {ABOUT}) FROM words "
        f"WHERE words MATCH ? AND rowid IN ({marks})",
        (expression, *ids),
    )
    return _checked(rows.fetchall())


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


def _mix(
    stored: StoredVectors,
    similarity: NDArray[np.float32],
    nearest: NDArray[np.int64],
    by_words: Scores,
) -> Scores:
    """The scores of all passages that words or vectors put forward."""
    word_ids = np.fromiter(by_words, np.int64, len(by_words))
    word_rows = np.searchsorted(stored.ids, word_ids)
    word_rows = word_rows[word_rows < len(stored.ids)]
    scores = {id: (1 - MEANING) * score for id, score in by_words.items()}
    for row in np.union1d(word_rows, nearest).tolist():
        id = int(stored.ids[row])
        by_meaning = MEANING * float(similarity[row])
        scores[id] = scores.get(id, 0.0) + by_meaning
    return scores


def _best(scores: Scores, count: int) -> Scores:
    some = [(id, score) for id, score in scores.items() if score > 0]
    some.sort(key=lambda item: (-item[1], item[0]))
    return dict(some[:count])


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Where the largest values are."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, -count)[-count:]
