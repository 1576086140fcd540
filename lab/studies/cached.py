"""An engine that remembers what it has read: several studies ask the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee

from rmreader.reading.engine.engines import EncoderInput, Engine, Logits


class CachedEngine:
    """Caches logits, so that each text is read once: for a reader alone, and for its ensemble."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.attend = engine.attend
        self.cache: dict[tuple[str, str], Logits] = {}

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question."""
        return next(self.read_many([pair], 1))

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, in order; only those that are new are passed on."""
        all_pairs, candidates = tee(pairs)
        fresh = self.engine.read_many(self._new(candidates), batch_size)
        for pair in all_pairs:
            key = pair.question, pair.context
            if key not in self.cache:
                self.cache[key] = next(fresh)

            yield self.cache[key]

    def _new(self, pairs: Iterable[EncoderInput]) -> Iterator[EncoderInput]:
        """The pairs that are not cached, each once."""
        seen = set(self.cache)
        for pair in pairs:
            key = pair.question, pair.context
            if key not in seen:
                seen.add(key)
                yield pair
