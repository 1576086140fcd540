"""The readers that a study is given, asked as every other command asks them; torch only where it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmreader.data.squad import Dataset
from rmreader.errors import UserError
from rmreader.readers.folder import MANIFEST, find, open_folder, reader_names
from rmreader.reading.answering.answers import Answer
from rmreader.reading.answering.ensemble import Ensemble
from rmreader.reading.answering.reader import Reader
from rmreader.reading.running.once import Once
from rmreader.text.lexicon import Lexicon


def reader_folder(name_or_path: str | Path) -> Path:
    """The reader of that name, in that folder, or in ``best`` of a run's folder."""
    best = Path(name_or_path) / "best"
    return best if (best / MANIFEST).is_file() else find(name_or_path)


def load(model: str | Path, device: str | None = None) -> Reader:
    """A reader, or with commas an ensemble, as ``evaluate`` loads it; with a device, its network in torch there."""
    folders = [reader_folder(name) for name in reader_names(model)]
    readers = [Reader.load(folder) if device is None else _in_torch(folder, device) for folder in folders]
    return readers[0] if len(readers) == 1 else Ensemble(readers)


def _in_torch(folder: Path, device: str) -> Reader:
    from rmreader.learning.engine import TorchEngine
    from rmreader.learning.setup import pick_device

    opened = open_folder(folder)
    return Reader(opened, TorchEngine(opened, Lexicon.load(opened.path), str(pick_device(device))))


def everyone(models: Sequence[str], device: str | None = None) -> dict[str, Reader]:
    """Each reader by its name, and several of them together as ``ensemble``; none reads a text twice."""
    folders = [tuple(reader_folder(name).resolve() for name in reader_names(model)) for model in models]
    if len(set(folders)) < len(models):
        raise UserError("a reader is given twice; name each once.")
    readers = [load(model, device) for model in models]
    for reader in readers:
        reader.engine = Once(reader.engine)
    names = ["./ensemble" if model == "ensemble" else str(model) for model in models]  # that row is all of them
    return dict(zip(names, readers, strict=True)) | ({"ensemble": Ensemble(readers)} if len(readers) > 1 else {})


def answers(reader: Reader, dataset: Dataset) -> dict[str, Answer | None]:
    """The best answer to every question by id; None where there is nothing to read.

    As ``evaluate`` does it, one is always given where every question has one, as the paper's reader does.
    """
    always = not any(question.impossible for _, question in dataset.questions())
    return {row.id: found[0] if found else None for row, found in reader.predict(dataset, always=always)}


def predictions(reader: Reader, dataset: Dataset) -> dict[str, str]:
    """The text of the best answer to every question by id, as official files of predictions have it."""
    return {id: found.text if found else "" for id, found in answers(reader, dataset).items()}
