"""Search on an OpenSearch server: words and vectors put passages forward, scored as in a file.

The server finds by BM25 and by its k-NN field; its two scores are no mix that a reader can rely on.
So the passages come with their vectors, and relevance.py scores them here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmreader.documents.embedding import Floats, Vectors
from rmreader.documents.relevance import (
    BY_MEANING,
    BY_WORDS,
    REFINED,
    Found,
    fit,
    share_of_words,
    word_worth,
)

Hit = dict[str, Any]
Body = dict[str, Any]

SCORE_FACTOR = 2.2  # k1 + 1, which servers from version 3 on leave out of BM25


def vector_field(dim: int) -> dict[str, Any]:
    """The k-NN field: eight bits each, as in a file."""
    method = {
        "name": "hnsw",
        "engine": "lucene",
        "space_type": "cosinesimil",
    }
    return {
        "type": "knn_vector",
        "dimension": dim,
        "data_type": "byte",
        "method": method,
    }


def vector_row(vectors: Vectors, number: int) -> dict[str, Any]:
    """What is kept of a passage's vector; a text without a known word has none."""
    codes = vectors.codes[number]
    if not codes.any():
        return {}
    return {"vector": codes.tolist()}


def make_bodies(words: Sequence[str], vector: Floats, count: int) -> dict[str, Body]:
    """What the server is asked, by name: one request for all of it."""
    bodies: dict[str, Body] = {}
    if words:
        match = {"match": {"words": " ".join(words)}}
        filters = {word: {"match": {"words": word}} for word in words}
        bodies["words"] = {
            "query": match,
            "size": max(count, BY_WORDS),
        }
        bodies["counts"] = {
            "query": {"match_all": {}},
            "size": 0,
            "track_total_hits": True,
            "aggs": {"words": {"filters": {"filters": filters}}},
        }
    if vector.any():
        most = max(count, BY_MEANING)
        codes = np.round(vector / np.abs(vector).max() * 127).astype(int)
        nearest = {
            "vector": codes.tolist(),
            "k": most,
        }
        bodies["meaning"] = {
            "query": {"knn": {"vector": nearest}},
            "size": most,
        }
    return bodies


@dataclass
class ServerHits:
    """Passages that the server put forward, and how they fit."""

    vector: Floats
    worth: float
    """About the BM25 of a passage with all words of the question."""
    hits: dict[str, Hit] = field(default_factory=dict)
    bm25: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, vector: Floats, replies: dict[str, Body], factor: float) -> ServerHits:
        """Out of the replies to ``make_bodies``; BM25 is counted ``factor`` times."""
        worth = 0.0
        if "counts" in replies:
            counts = replies["counts"]["aggregations"]["words"]["buckets"].values()
            total = int(replies["counts"]["hits"]["total"]["value"])
            worth = word_worth([int(count["doc_count"]) for count in counts], total)
        candidates = cls(vector, worth)
        for hit in _hits(replies, "meaning"):
            candidates.hits[hit["_id"]] = hit
        for hit in _hits(replies, "words"):
            id = hit["_id"]
            candidates.hits[id] = hit
            candidates.bm25[id] = factor * float(hit["_score"])
        return candidates

    def find(
        self, question: str, count: int, fetch: Callable[[list[str]], list[Hit]]
    ) -> tuple[Found, list[Hit]]:
        """The best, and how they fit; ``fetch`` gets passages with the vectors alone."""
        ids = list(self.hits)
        words = self._shares(ids)
        whole = self._cosines([self.hits[id] for id in ids])
        fits = fit(whole, words)
        best = np.argsort(-fits, kind="stable")[: max(count, REFINED)]
        known = dict(zip(ids, fits.tolist(), strict=True))
        chosen = [ids[row] for row in best]
        around = self._around(chosen, known, fetch)
        found = Found(chosen, words[best], whole[best], around, question)
        return found, [self.hits[id] for id in chosen]

    def _shares(self, ids: Sequence[str]) -> Floats:
        bm25 = np.array([self.bm25.get(id, 0.0) for id in ids], np.float32)
        return share_of_words(bm25, self.worth)

    def _cosines(self, hits: Sequence[Hit]) -> Floats:
        cosines = np.zeros(len(hits), np.float32)
        for row, hit in enumerate(hits):
            codes = np.array(hit["_source"].get("vector", ()), np.float32)
            if codes.shape == self.vector.shape:
                cosines[row] = codes @ self.vector / max(float(np.linalg.norm(codes)), 1e-6)
        return cosines

    def _around(
        self,
        chosen: Sequence[str],
        known: dict[str, float],
        fetch: Callable[[list[str]], list[Hit]],
    ) -> Floats:
        """How the passages beside each fit; a document's only passage has its own."""
        missing: dict[str, None] = {}
        for id in chosen:
            for other in neighbours(id):
                if other not in known:
                    missing[other] = None
        others = fetch(list(missing))
        # Their words are not among the best, else they would be known.
        no_words = np.zeros(len(others), np.float32)
        fits = fit(self._cosines(others), no_words)
        for hit, value in zip(others, fits.tolist(), strict=True):
            known[hit["_id"]] = value
        around = np.zeros(len(chosen), np.float32)
        for row, id in enumerate(chosen):
            values = [known[other] for other in neighbours(id) if other in known]
            around[row] = np.mean(values) if values else known[id]
        return around


def _hits(replies: dict[str, Body], name: str) -> list[Hit]:
    """What one of the searches found."""
    if name not in replies:
        return []
    hits: list[Hit] = replies[name]["hits"]["hits"]
    return hits


def neighbours(id: str) -> list[str]:
    """The ids of the passages before and after one, if they are there."""
    key, _, number = id.rpartition("-")
    at = int(number)
    after = f"{key}-{at + 1}"
    if at == 0:
        return [after]
    return [f"{key}-{at - 1}", after]
