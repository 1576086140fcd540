"""The readers that a study is given, asked as every other command asks them; torch only where it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path

from rmreader.data.squad import Dataset
from rmreader.errors import UserError
from rmreader.readers.folder import MANIFEST, find, open_folder, reader_names
from rmreader.reading.answering.answers import Answer, text_of
from rmreader.reading.answering.ensemble import Ensemble
from rmreader.reading.answering.reader import Reader
from rmreader.reading.running.engines import Engine, Pair, Scores
from rmreader.text.lexicon import Lexicon


def reader_folder(name_or_path: str | Path) -> Path:
    """The reader of that name, in that folder, or in ``best`` of a run's folder."""
    best = Path(name_or_path) / "best"
    return best if (best / MANIFEST).is_file() else find(name_or_path)


def refuse_twice(models: Sequence[str | Path]) -> None:
    """Refuse a reader that is given twice, by whatever names."""
    if len({tuple(folder.resolve() for folder in _folders(model)) for model in models}) < len(models):
        raise UserError("a reader is given twice; name each once.")


def _folders(model: str | Path) -> list[Path]:
    return [reader_folder(name) for name in reader_names(model)]


def load(model: str | Path, device: str | None = None) -> Reader:
    """A reader, or with commas an ensemble, as ``evaluate`` loads it; with a device, its network in torch there."""
    readers = [Reader.load(folder) if device is None else _in_torch(folder, device) for folder in _folders(model)]
    return readers[0] if len(readers) == 1 else Ensemble(readers)


def _in_torch(folder: Path, device: str) -> Reader:
    from rmreader.learning.engine import TorchEngine
    from rmreader.learning.setup import pick_device

    opened = open_folder(folder)
    return Reader(opened, TorchEngine(opened, Lexicon.load(opened.path), str(pick_device(device))))


def answers(reader: Reader, dataset: Dataset) -> dict[str, Answer | None]:
    """The best answer to every question by id; None where there is nothing to read."""
    return {row.id: found[0] if found else None for row, found in reader.predict(dataset)}


def predictions(reader: Reader, dataset: Dataset) -> dict[str, str]:
    """The text of the best answer to every question by id, as official files of predictions have it."""
    return {row.id: text_of(found) for row, found in reader.predict(dataset)}


class Once:
    """An engine that remembers: after its reader was asked alone, the ensemble it is in reads nothing a second time."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.attend = engine, engine.attend
        self.known: dict[tuple[str, str], Scores] = {}

    def read(self, pair: Pair) -> Scores:
        """Read one question."""
        return next(self.read_many([pair], 1))

    def read_many(self, pairs: Iterable[Pair], batch_size: int) -> Iterator[Scores]:
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
