"""The readers that a study is given, asked as every other command asks them; torch only where it
is needed."""

from collections.abc import Sequence
from pathlib import Path

from lab.studies.cached import CachedEngine
from rmreader.core.errors import UserError
from rmreader.data.squad import Dataset, read_squad
from rmreader.readers.folder import MANIFEST, find, open_folder, reader_names
from rmreader.reading.ensemble import Ensemble
from rmreader.reading.evaluate import best_answers
from rmreader.reading.reader import Reader


def reader_folder(name_or_path: str | Path) -> Path:
    """The reader of that name, in that folder, or in ``best`` of a run's folder."""
    best = Path(name_or_path) / "best"
    return best if (best / MANIFEST).is_file() else find(name_or_path)


def load(model: str | Path, device: str | None = None) -> Reader:
    """A reader, or with commas an ensemble, as ``evaluate`` loads it; with a device, its network
    in torch there."""
    folders = [reader_folder(name) for name in reader_names(model)]
    if device is None:
        readers = [Reader.load(folder) for folder in folders]
    else:
        from rmreader.training.engine import TorchEngine

        readers = [Reader(one, TorchEngine(one, device)) for one in map(open_folder, folders)]
    return readers[0] if len(readers) == 1 else Ensemble(readers)


def everyone(models: Sequence[str], device: str | None = None) -> dict[str, Reader]:
    """Each reader by its name, and several of them together as ``ensemble``; none reads a text
    twice."""
    folders = [
        tuple(reader_folder(name).resolve() for name in reader_names(model)) for model in models
    ]
    if len(set(folders)) < len(models):
        raise UserError("a reader is given twice; name each once.")
    readers = [load(model, device) for model in models]
    for reader in readers:
        reader.engine = CachedEngine(reader.engine)
    names = [
        "./ensemble" if model == "ensemble" else str(model) for model in models
    ]  # that row is all of them
    return dict(zip(names, readers, strict=True)) | (
        {"ensemble": Ensemble(readers)} if len(readers) > 1 else {}
    )


def questions(path: Path) -> Dataset:
    """The questions of a file to score readers on."""
    dataset = read_squad(path)
    if next(dataset.questions(), None) is None:
        raise UserError(
            f"{path}: holds no question, so there is nothing to score; give other data."
        )
    return dataset


def predictions(reader: Reader, dataset: Dataset) -> dict[str, str]:
    """The text of the best answer to every question by id, as official files of predictions have
    it."""
    return {id: found.text if found else "" for id, found in best_answers(reader, dataset).items()}
