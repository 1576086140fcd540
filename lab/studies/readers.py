"""The readers that a study is given, asked as every other command asks them.

Torch is imported only where a device is named.
"""

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
    """A reader, or with commas an ensemble, as ``evaluate`` loads it.

    With a device, its network is computed there by torch.
    """
    folders = [reader_folder(name) for name in reader_names(model)]
    if device is None:
        readers = [Reader.load(folder) for folder in folders]
    else:
        from rmreader.training.engine import TorchEngine

        opened = [open_folder(folder) for folder in folders]
        readers = [Reader(folder, TorchEngine(folder, device)) for folder in opened]
    return readers[0] if len(readers) == 1 else Ensemble(readers)


def everyone(models: Sequence[str], device: str | None = None) -> dict[str, Reader]:
    """Each reader by its name, and several of them together as ``ensemble``.

    None reads a text twice.
    """
    folders = set()
    for model in models:
        paths = [reader_folder(name).resolve() for name in reader_names(model)]
        folders.add(tuple(paths))
    if len(folders) < len(models):
        raise UserError("a reader is given twice; name each once.")

    readers: dict[str, Reader] = {}
    for model in models:
        reader = load(model, device)
        reader.engine = CachedEngine(reader.engine)
        # A folder of the name `ensemble` is not all readers together.
        name = "./ensemble" if model == "ensemble" else str(model)
        readers[name] = reader
    if len(readers) > 1:
        readers["ensemble"] = Ensemble(list(readers.values()))
    return readers


def questions(path: Path) -> Dataset:
    """The questions of a file to score readers on."""
    dataset = read_squad(path)
    if next(dataset.questions(), None) is None:
        raise UserError(
            f"{path}: holds no question, so there is nothing to score; give other data."
        )
    return dataset


def predictions(reader: Reader, dataset: Dataset) -> dict[str, str]:
    """The text of the best answer to every question, as official files of predictions have it."""
    answers = best_answers(reader, dataset)
    return {id: answer.text if answer else "" for id, answer in answers.items()}
