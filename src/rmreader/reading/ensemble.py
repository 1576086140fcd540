"""Several readers as one: the arithmetic mean of their probabilities, of p₁ and of p₂ each, decoded as from one.

The paper's ensemble is 12 readers that differ in their initial weights; how they are joined it leaves open. Members may
have other words, other blocks, another engine: they share only the tokens they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.reading.decision import Decision
from rmreader.reading.engine.engines import EncoderInput, Engine, Logits, Rounds
from rmreader.reading.reader import Reader
from rmreader.reading.spans import log_sum
from rmreader.scoring.attention import log_attention


class Ensemble(Reader):
    """Readers that answer together; longest answer and window are the first one's, the temperature is their mean."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        if not readers:
            raise UserError("an ensemble needs at least one reader.")
        first, engine = readers[0], EnsembleEngine([reader.engine for reader in readers])
        super().__init__(first.folder, engine, first.window, first.max_length)
        self.temperature = float(np.mean([reader.temperature for reader in readers]))
        self.decision = Decision.mean([reader.decision for reader in readers])

    @classmethod
    def of(cls, names: Iterable[str | Path], **options: Any) -> Ensemble:
        """Load each reader as ``Reader.load`` does, and join them."""
        readers = [Reader.load(name, **options) for name in names]
        ensemble = cls(readers)
        ensemble.loaded = ([reader.loaded[0] for reader in readers if reader.loaded], options)
        return ensemble


class EnsembleEngine:
    """Engines that read the same pairs, joined."""

    def __init__(self, members: Sequence[Engine]) -> None:
        self.members = list(members)

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question with every member."""
        return _join([member.read(pair) for member in self.members])

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, in order."""
        copies = tee(pairs, len(self.members))
        reading = [member.read_many(copy, batch_size) for member, copy in zip(self.members, copies, strict=True)]
        return map(_join, zip(*reading, strict=True))

    def attend(self, pair: EncoderInput) -> Rounds:
        """For every round that all members have, the logs of the mean attentions: the paper's softmax(E*)."""
        return [
            (_mean_attention([E for E, _ in same]), _mean_attention([B for _, B in same]))
            for same in zip(*(member.attend(pair) for member in self.members), strict=False)
        ]


class Once:
    """An engine that remembers: after its reader was asked alone, the ensemble it is in reads nothing a second time."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.attend = engine, engine.attend
        self.known: dict[tuple[str, str], Logits] = {}

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question."""
        return next(self.read_many([pair], 1))

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, in order; only those that are new are passed on."""
        ours, theirs = tee(((pair.question, pair.context), pair) for pair in pairs)
        passed = set(self.known)
        # `add` gives None, so that a pair is passed on where it is new, and marked as passed
        new = (pair for key, pair in theirs if key not in passed and not passed.add(key))  # type: ignore[func-returns-value]
        fresh = self.engine.read_many(new, batch_size)
        for key, _ in ours:
            if key not in self.known:
                self.known[key] = next(fresh)
            yield self.known[key]


def _join(scores: Sequence[Logits]) -> Logits:
    """The mean of the members' p₁, of their p₂, and of p(none) of those that have it."""
    start, end = _mean([one.start for one in scores]), _mean([one.end for one in scores])
    odds = [float(one.none[0]) - log_sum(one.start) - log_sum(one.end) for one in scores if one.none is not None]
    if not odds:
        return Logits(start, end)
    yes, no = (np.logaddexp.reduce([-np.logaddexp(0.0, sign * x) for x in odds]) for sign in (-1, 1))
    return Logits(start, end, np.array([yes - no + log_sum(start) + log_sum(end)], np.float32))


def _mean(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Logits of the mean of the members' distributions.

    Their sum of exponentials, by which the windows of a long passage are compared, is the members' geometric mean, so
    that an ensemble of one is its member.
    """
    sums = [log_sum(member) for member in logits]
    logs = np.stack([member.astype(np.float64) - total for member, total in zip(logits, sums, strict=True)])
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)) + np.mean(sums), np.float32)


def _mean_attention(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    logs = [log_attention(member) for member in logits]
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)), np.float32)
