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
from rmreader.documents.relevance import LOOKED_AT, PUT_FORWARD, Fits, Found, fit

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
            "size": max(count, PUT_FORWARD),
        }
        bodies["counts"] = {
            "query": {"match_all": {}},
            "size": 0,
            "track_total_hits": True,
            "aggs": {"words": {"filters": {"filters": filters}}},
        }
    if vector.any():
        most = max(count, PUT_FORWARD)
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
    counts: list[int]
    """In how many passages each word of the question is."""
    passages: int
    """How many the index has."""
    hits: dict[str, Hit] = field(default_factory=dict)
    bm25: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, vector: Floats, replies: dict[str, Body], factor: float) -> ServerHits:
        """Out of the replies to ``make_bodies``; BM25 is counted ``factor`` times."""
        counts: list[int] = []
        passages = 0
        if "counts" in replies:
            reply = replies["counts"]
            buckets = reply["aggregations"]["words"]["buckets"]
            for bucket in buckets.values():
                counts.append(int(bucket["doc_count"]))
            passages = int(reply["hits"]["total"]["value"])
        candidates = cls(vector, counts, passages)
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
        bm25 = np.array([self.bm25.get(id, 0.0) for id in ids], np.float32)
        cosines = self._cosines(list(self.hits.values()))
        fits = Fits.of(bm25, cosines, self.counts, self.passages)
        best = np.argsort(-fits.both, kind="stable")[: max(count, LOOKED_AT)]
        known = dict(zip(ids, fits.both.tolist(), strict=True))
        chosen = [ids[row] for row in best]
        around = self._around(chosen, known, fetch)
        found = Found(
            chosen,
            fits.words[best],
            fits.whole[best],
            around,
            question,
        )
        return found, [self.hits[id] for id in chosen]

    def _cosines(self, hits: Sequence[Hit]) -> Floats:
        cosines = np.zeros(len(hits), np.float32)
        for row, hit in enumerate(hits):
            codes = np.array(hit["_source"].get("vector", ()), np.float32)
            if codes.shape == self.vector.shape:
                length = float(np.linalg.norm(codes))
                cosines[row] = codes @ self.vector / max(length, 1e-6)
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
