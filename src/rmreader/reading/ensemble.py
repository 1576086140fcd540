"""Several readers as one: the arithmetic mean of their probabilities, of p₁ and of p₂ each, decoded
as from one.

The paper's ensemble is 12 readers that differ in their initial weights; how they are joined it
leaves open. Members may have other words, other blocks, another engine: they share only the tokens
they read.
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
    """Readers that answer together; longest answer and window are the first one's, the temperature
    is their mean."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        if not readers:
            raise UserError("an ensemble needs at least one reader.")

        first = readers[0]
        engine = EnsembleEngine([reader.engine for reader in readers])
        super().__init__(first.folder, engine, first.window, first.max_length)
        self.temperature = float(np.mean([reader.temperature for reader in readers]))
        self.decision = Decision.mean([reader.decision for reader in readers])

    @classmethod
    def of(cls, names: Iterable[str | Path], **options: Any) -> Ensemble:
        """Load each reader as ``Reader.load`` does, and join them.

        >>> both = Ensemble.of(["small", "base"])
        >>> both.ask("Who wrote it?", "The letter was written by Ada Lovelace.").best.text
        'Ada Lovelace'
        """
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
        readings = []
        for member, copy in zip(self.members, copies, strict=True):
            readings.append(member.read_many(copy, batch_size))
        return map(_join, zip(*readings, strict=True))

    def attend(self, pair: EncoderInput) -> Rounds:
        """For every round that all members have, the logs of the mean attentions: the paper's
        softmax(E*)."""
        rounds = []
        attentions = [member.attend(pair) for member in self.members]
        for same_round in zip(*attentions, strict=False):
            E = _mean_attention([E for E, _ in same_round])
            B = _mean_attention([B for _, B in same_round])
            rounds.append((E, B))

        return rounds


def _join(scores: Sequence[Logits]) -> Logits:
    """The mean of the members' p₁, of their p₂, and of p(none) of those that have it."""
    start = _mean([member.start for member in scores])
    end = _mean([member.end for member in scores])
    log_odds = []
    for member in scores:
        if member.none is not None:
            log_odds.append(float(member.none[0]) - log_sum(member.start) - log_sum(member.end))

    if not log_odds:
        return Logits(start, end)

    # The log-odds of the mean chance, then back on the scale of the joined logits.
    log_none = np.logaddexp.reduce([-np.logaddexp(0.0, -x) for x in log_odds])
    log_some = np.logaddexp.reduce([-np.logaddexp(0.0, x) for x in log_odds])
    none = log_none - log_some + log_sum(start) + log_sum(end)

    return Logits(start, end, np.array([none], np.float32))


def _mean(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Logits of the mean of the members' distributions.

    Their sum of exponentials, by which the windows of a long passage are compared, is the members'
    geometric mean, so that an ensemble of one is its member.
    """
    sums = [log_sum(member) for member in logits]
    logs = []
    for member, total in zip(logits, sums, strict=True):
        logs.append(member.astype(np.float64) - total)

    log_mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    return np.asarray(log_mean + np.mean(sums), np.float32)


def _mean_attention(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The log of the mean of the members' attentions."""
    logs = [log_attention(member) for member in logits]
    log_mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    return np.asarray(log_mean, np.float32)
