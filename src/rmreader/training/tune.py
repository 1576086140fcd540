"""Tuning: a trained reader learns from tens to thousands of somebody's own examples, with settings by their number.

Examples become a data set in SQuAD's layout, in the folder of an ordinary run that starts from the reader. A part of
them is held out: it decides when to stop, and the scores before and after are on it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.recipe import Recipe, recipe_from, to_tree
from rmreader.data.encode import encode_file
from rmreader.data.examples import Examples, read_examples
from rmreader.data.split import split, split_seed
from rmreader.data.squad import report_problems
from rmreader.readers.folder import find, open_folder
from rmreader.reading.answers import text_of
from rmreader.reading.calibrate import rows_in
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.scoring.squad import exact_match, f1
from rmreader.training.trainer import train

_LEAST = 10  # fewer examples are a list of cases, not something to learn from
_FILE = "examples.json"  # in the run's folder, as SQuAD has them


@dataclass(frozen=True)
class Change:
    """Scores of a reader on one data set before and after it was tuned, in percent."""

    data: str
    questions: int
    exact_match: tuple[float, float]
    f1: tuple[float, float]


@dataclass(frozen=True)
class Tuned:
    """What came of tuning."""

    best: Path
    """The tuned reader's folder."""
    finished: bool
    """False where it was asked to stop; it can be resumed."""
    examples: int
    changes: list[Change]


def tune(
    reader: str | Path,
    examples: Path,
    out: Path,
    test: Path | None = None,
    overrides: Sequence[str] = (),
    resume: bool = False,
    device: str | None = None,
) -> Tuned:
    """Tune a reader, by folder or shipped name, on a file of examples, into the folder ``out``.

    ``test`` are further examples: they decide nothing, and scores on them are reported too.
    """
    started = open_folder(reader)
    found, others = (
        report_problems(read_examples(examples)),
        report_problems(read_examples(test)) if test is not None else None,
    )
    if len(found.rows) < _LEAST:
        raise UserError(f"{examples}: {len(found.rows)} examples are too few to learn from; give at least {_LEAST}.")
    data, content = out / _FILE, json.dumps(found.tree()).encode()
    if data.exists() and data.read_bytes() != content:
        raise UserError(f"{out}: holds a tuning on other examples; give another folder.")
    settings = settings_for(len(found.rows), started.recipe, _longest(found))
    recipe = recipe_from(settings | {"inputs": to_tree(started.recipe)["inputs"]}, overrides)
    recipe = recipe_from(to_tree(recipe), [f"training.init={json.dumps(_name(reader))}"])
    write_whole(data, content)
    result = train(recipe, data, None, out, resume, device)
    if not result.finished:
        return Tuned(result.best, False, len(found.rows), [])
    held = split(encode_file(data), recipe.training.holdout, split_seed(recipe.training))[1]
    sets = {"held-out examples": [row for row in rows_in(held) if row.references]} if held is not None else {}
    if test is not None and others is not None:
        sets[test.name] = [
            QuestionRow(q.id, q.text, passage, tuple(answer.text for answer in q.answers))
            for _, passage, q in others.rows
        ]
    readers = Reader.load(reader), Reader.load(result.best)
    changes = [_compare(name, rows, readers) for name, rows in sets.items()]
    return Tuned(result.best, True, len(found.rows), changes)


def settings_for(count: int, recipe: Recipe, longest: int) -> dict[str, Any]:
    """The sections of a recipe to tune a reader on so many examples, its longest answers of so many words.

    Few are learned from often in small batches, many a few times in larger ones. The rate falls, and the run ends,
    where the held-out examples are answered no better.
    """
    batch = int(2 ** np.clip(np.round(np.log2(count / 12)), 1, 5))  # 2 to 32
    holdout = 0.2 if count < 1000 else 0.1
    steps = max(1, int(count * (1 - holdout)) // batch)  # per epoch
    epochs = float(np.clip(round(3000 / count), 3, 20))
    training = {
        "epochs": epochs,
        "batch_size": batch,
        "rate": max(recipe.training.rate, 3e-4),  # its own, but where that was for a gentle second stage
        "contextual_rate": min(recipe.training.contextual_rate, 5e-5),
        "schedule": "halve",
        "patience": 3,
        "warmup": max(1, round(0.1 * epochs * steps)),
        "ema": 0.9,
        "holdout": holdout,
        "max_context": recipe.training.max_context,
        "evaluate_every": 1.0,
    }
    decoding = {"max_length": max(recipe.decoding.max_length, longest)}
    return {"network": to_tree(recipe)["network"], "training": training, "decoding": decoding}


def _longest(found: Examples) -> int:
    """Words of the longest answers, the longest hundredth aside."""
    words = [len(answer.text.split()) for *_, question in found.rows for answer in question.answers]
    return int(np.ceil(np.quantile(words, 0.99)))


def _name(reader: str | Path) -> str:
    """What ``training.init`` calls a reader: a shipped one by its name, any other by its whole path."""
    path = find(reader)
    return str(path.resolve()) if path == Path(reader) else str(reader)


def _compare(name: str, rows: Sequence[QuestionRow], readers: tuple[Reader, Reader]) -> Change:
    scores = []
    for reader in readers:
        pairs = [(text_of(answers), row.references) for row, answers in reader.predict(rows)]
        scores.append([100 * float(np.mean([rule(*pair) for pair in pairs])) for rule in (exact_match, f1)])
    (em_before, f1_before), (em_after, f1_after) = scores
    return Change(name, len(rows), (em_before, em_after), (f1_before, f1_after))
