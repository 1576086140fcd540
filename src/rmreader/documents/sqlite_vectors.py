"""The vectors of an SQLite index: one row per document, read as a whole and kept in memory."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rmreader.documents.embedding import Floats, TextEncoder, Vectors


@dataclass(frozen=True)
class StoredVectors:
    """The vectors of all passages of an index, and whose they are."""

    ids: NDArray[np.int64]
    """Of the passages, in order."""
    documents: NDArray[np.int64]
    """Of each passage."""
    vectors: Vectors

    def has(self, ids: Collection[int]) -> bool:
        """Whether there are vectors, those of these passages among them."""
        return len(self.ids) > 0 and bool(np.isin(list(ids), self.ids).all())

    def rows(self, ids: Collection[int]) -> NDArray[np.int64]:
        """The places of these passages, which have vectors."""
        return np.searchsorted(self.ids, np.fromiter(ids, np.int64, len(ids)))

    def around(self, values: Floats) -> Floats:
        """For each passage the mean of the values of the ones before and after it.

        A document's only passage has its own.
        """
        same = (self.documents[1:] == self.documents[:-1]).astype(np.float32)
        sums = np.zeros_like(values)
        counts = np.zeros_like(values)
        sums[1:] += same * values[:-1]
        counts[1:] += same
        sums[:-1] += same * values[1:]
        counts[:-1] += same
        return np.where(counts > 0, sums / np.maximum(counts, 1), values)


class VectorCache:
    """The vectors of an index, read once for every state of the file and shared by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: object = None
        self._stored: StoredVectors | None = None

    def get(
        self,
        base: sqlite3.Connection,
        encoder: TextEncoder,
        state: object,
    ) -> StoredVectors:
        """The vectors of an open index; ``state`` is another one after every change."""
        with self._lock:
            if self._stored is None or self._state != state:
                self._stored = read_vectors(base, encoder)
                self._state = state
            return self._stored


def write_vectors(
    base: sqlite3.Connection,
    document: int,
    first: int,
    vectors: Vectors,
) -> None:
    """Keep the vectors of a document, whose passages have the ids from ``first`` on."""
    codes = vectors.codes.tobytes()
    scales = vectors.scales.astype("<f4").tobytes()
    checksum = _checksum(first, codes, scales)
    base.execute(
        "INSERT INTO vectors (document, first, source, codes, scales, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (document, first, vectors.source, codes, scales, checksum),
    )


def read_vectors(base: sqlite3.Connection, encoder: TextEncoder) -> StoredVectors:
    """All vectors that this encoder made; ``ValueError`` if a row is not as it was written."""
    ids = [np.zeros(0, np.int64)]
    documents = [np.zeros(0, np.int64)]
    codes = [np.zeros((0, encoder.dim), np.int8)]
    scales = [np.zeros(0, np.float32)]
    rows = base.execute(
        "SELECT document, first, codes, scales, checksum FROM vectors "
        "WHERE source = ? ORDER BY first",
        (encoder.source,),
    )
    for document, first, row_codes, row_scales, checksum in rows:
        _check_row(first, row_codes, row_scales, checksum)
        size = len(row_scales) // 4
        ids.append(np.arange(first, first + size))
        documents.append(np.full(size, document))
        codes.append(np.frombuffer(row_codes, np.int8).reshape(size, encoder.dim))
        scales.append(np.frombuffer(row_scales, "<f4").astype(np.float32))
    lengths = np.concatenate(scales)
    if not np.isfinite(lengths).all():
        raise ValueError("a vector without a length")
    vectors = Vectors(np.concatenate(codes), lengths, encoder.source)
    return StoredVectors(np.concatenate(ids), np.concatenate(documents), vectors)


def _check_row(first: object, codes: object, scales: object, checksum: object) -> None:
    if type(first) is not int or type(codes) is not bytes or type(scales) is not bytes:
        raise ValueError("vectors of a wrong type")
    if checksum != _checksum(first, codes, scales):
        raise ValueError("vectors are not as they were written")


def _checksum(first: int, codes: bytes, scales: bytes) -> int:
    checksum = zlib.crc32(codes, first & 0xFFFFFFFF)
    return zlib.crc32(scales, checksum)
