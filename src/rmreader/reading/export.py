"""Write a trained reader again: in fewer bits, or several as one folder."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.core.files.outputs import folder_to_write
from rmreader.readers.folder import open_folder
from rmreader.readers.weights import Storage
from rmreader.readers.write import write_ensemble, write_reader
from rmreader.reading.answers import text_of
from rmreader.reading.compare import compare_with_torch
from rmreader.reading.reader import Reader

ALLOWED_LOSS = 0.1  # of F1, in percent, for 8-bit products

_COMPARED = 4  # questions that a written reader is compared with torch on
_SAMPLES = [
    ("Who?", "Ada."),
    (
        "Which team won?",
        "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third title.",
    ),
    (
        "Wo steht „das“ geschrieben, naïve Ärzte?",
        "Überall 1. \n\n 中文 and ½ of 3,000 zzyzx ☃, e.g. here (see II).",
    ),
    (
        "Where was the game " * 10 + "played?",
        "It was played in Santa Clara, California, on February 7, 2016. " * 25,
    ),
]


@dataclass(frozen=True)
class Loss:
    """F1 before and after, on the questions it was measured on."""

    before: float
    after: float
    questions: int


def shrink(
    name_or_path: str | Path,
    out: Path,
    weights: Storage = "float16",
    precision: Literal["float", "int8"] = "float",
    data: Path | None = None,
) -> Loss | None:
    """Write a reader's folder again with weights in fewer bits, and perhaps made to run with 8-bit
    products.

    With ``data``, a SQuAD-format file, both readers answer it, and one that loses more than
    ``ALLOWED_LOSS`` F1 is not written. 8-bit products are never taken unmeasured. The new weights
    must give the same result with and without torch, where torch is installed.
    """
    folder = open_folder(name_or_path)
    if precision == "int8" and data is None:
        raise UserError(
            "8-bit products need --data, a file of questions with answers, to show what they cost."
        )
    folder_to_write(out, folder.path)
    losses: list[Loss] = []

    def measure(new: Path) -> dict[str, Any]:
        facts = compare(new, _SAMPLES if data is None else _questions(data))
        if data is None:
            return facts
        loss = _loss(folder.path, new, data)
        if loss.before - loss.after > ALLOWED_LOSS:
            raise UserError(
                f"{folder.path}: with {weights} weights and {precision} products F1 falls from "
                f"{loss.before:.2f} to {loss.after:.2f} on {data.name}, more than {ALLOWED_LOSS}; "
                "nothing is written."
            )
        losses.append(loss)
        return facts | {"shrunk": {"data": data.name, **dataclasses.asdict(loss)}}

    about = folder.about | {"precision": precision}
    write_reader(out, folder.weights(), folder.recipe, about, folder.copy_to, weights, measure)
    return losses[0] if losses else None


def compare(folder: Path, questions: Iterable[tuple[str, str]] = _SAMPLES) -> dict[str, Any]:
    """What a manifest says about how a reader's two engines agree; refused where they do not."""
    if not _has_torch():
        say("torch is not installed here, so the new reader was not compared with it.")
        return {}
    agreement = compare_with_torch(open_folder(folder), questions)
    return {} if agreement is None else {"engines": dataclasses.asdict(agreement)}


def ensemble(names: Sequence[str], out: Path) -> dict[str, float]:
    """Write several readers as one folder that loads by one name.

    Returns what each costs, in ms per question here.
    """
    readers = {}
    for number, name in enumerate(names, 1):
        readers[f"{number}-{Path(name).resolve().name}"] = open_folder(name)
    if len(readers) < 2:
        raise UserError(
            f"{', '.join(names)}: an ensemble needs at least two readers; name another one."
        )
    folder_to_write(out, *(reader.path for reader in readers.values()))
    costs = {name: _milliseconds(reader.path) for name, reader in readers.items()}
    write_ensemble(out, readers, costs)
    return costs


def _has_torch() -> bool:
    try:
        return find_spec("torch") is not None
    except ValueError:  # somebody has made it impossible to import
        return False


def _questions(data: Path) -> list[tuple[str, str]]:
    """The first questions of a file, each with its passage."""
    from rmreader.data.squad import read_squad

    questions = read_squad(data).questions()
    readable = (
        (question.text, paragraph.context)
        for paragraph, question in questions
        if question.text.strip() and paragraph.context.strip()
    )
    return list(islice(readable, _COMPARED))


def _milliseconds(folder: Path) -> float:
    """The median of several readings of one passage, after the first two."""
    reader = Reader.load(folder)
    times = []
    for _ in range(9):
        began = perf_counter()
        reader.ask(*_SAMPLES[1])
        times.append(1000 * (perf_counter() - began))
    return sorted(times[2:])[3]


def _loss(before: Path, after: Path, data: Path) -> Loss:
    from rmreader.data.squad import read_squad
    from rmreader.scoring.squad import score

    dataset = read_squad(data)
    scores = []
    for folder, precision in ((before, "float"), (after, None)):
        reader = Reader.load(folder, precision=precision)  # type: ignore[arg-type]
        answers = {row.id: text_of(found) for row, found in reader.predict(dataset)}
        scores.append(score(dataset, answers))
    return Loss(scores[0].f1, scores[1].f1, scores[0].total)
