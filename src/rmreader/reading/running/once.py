"""An engine that remembers what it has read."""

from collections.abc import Iterable, Iterator
from itertools import tee

from rmreader.reading.running.engines import Engine, Logits, Pair


class Once:
    """An engine that remembers: after its reader was asked alone, the ensemble it is in reads nothing a second time."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.attend = engine, engine.attend
        self.known: dict[tuple[str, str], Logits] = {}

    def read(self, pair: Pair) -> Logits:
        """Read one question."""
        return next(self.read_many([pair], 1))

    def read_many(self, pairs: Iterable[Pair], batch_size: int) -> Iterator[Logits]:
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
