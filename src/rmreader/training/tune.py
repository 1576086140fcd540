"""Tuning: a trained reader learns from tens to thousands of somebody's own examples.

Examples become a data set in SQuAD's layout, in the folder of an ordinary run that starts from the
reader; the settings follow from their number. A part of them is held out: it decides when to stop,
and scores before and after are on it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.recipe import Recipe, recipe_from, to_tree
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.data.examples import Examples, read_examples
from rmreader.data.split import split, split_seed
from rmreader.data.squad import Dataset, report_problems
from rmreader.readers.folder import find, open_folder
from rmreader.reading.calibrate import rows_in
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow, rows_of
from rmreader.scoring.squad import exact_match, f1
from rmreader.training.pointer_tuning import keep_refusals, only_pointer
from rmreader.training.reader_folder import pick_device
from rmreader.training.trainer import Job, Run, TrainResult
from rmreader.training.tuning_data import is_ordinary, mix, ordinary_questions

_LEAST = 10  # fewer examples are a list of cases, not something to learn from
_MANY = 1000  # examples from which on the whole network learns, not the pointer alone
_POINTER_RATE = 2e-3
_FILE = "examples.json"  # in the run's folder, as SQuAD has them
_WORSE = 5.0  # points of refusals lost that are worth a warning


@dataclass(frozen=True)
class Change:
    """Scores of a reader on one data set before and after it was tuned, in percent.

    As ``evaluate`` has it: where the passages answer, an answer is always given for the scores.
    Where they do not, only a refusal is right.
    """

    data: str
    questions: int
    exact_match: tuple[float, float]
    f1: tuple[float, float]
    answered: bool
    """Whether the passages answer these questions."""
    refused: tuple[float, float] | None
    """The share that the reader refuses by its own decision; None if it cannot."""


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
    able = started.recipe.network.no_answer
    rows = report_problems(read_examples(examples, unanswered=able))
    others = None
    if test is not None:
        others = report_problems(read_examples(test, unanswered=able))
    if len(rows.rows) < _LEAST:
        count = len(rows.rows)
        few = f"{count} examples are too few to learn from"
        raise UserError(f"{examples}: {few}; give at least {_LEAST}.")
    tree = _tree(examples, rows, able)
    data = out / _FILE
    recipe = _recipe(reader, started.recipe, rows, overrides)
    _write_data(data, tree)
    result = _learn(
        recipe, data, out, resume, device, learns_pointer(len(rows.rows), started.recipe)
    )
    if not result.finished:
        return Tuned(result.best, False, len(rows.rows), [])
    held = split(encode_file(data), recipe.training.holdout, split_seed(recipe.training), able)[1]
    sets: dict[str, list[QuestionRow]] = {}
    if held is not None:
        sets["held-out examples"] = _own_rows(held)
    if test is not None and others is not None:
        sets[test.name] = rows_of(Dataset(articles=others.articles(), problems=(), file=""))
    if able:
        # Every other text: enough to see a change, in half the time.
        articles = ordinary_questions("test")[::2]
        ordinary = Dataset(articles=articles, problems=(), file="")
        sets["ordinary questions"] = rows_of(ordinary)
    changes = _compare_all(sets, Reader.load(reader), Reader.load(result.best))
    _warn_of_lost_refusals(changes, result.best)
    return Tuned(result.best, True, len(rows.rows), changes)


def _learn(
    recipe: Recipe,
    data: Path,
    out: Path,
    resume: bool,
    device: str | None,
    pointer_only: bool,
) -> TrainResult:
    """Train as ``train`` does, or the pointer alone."""
    job = Job(
        recipe=recipe,
        train_path=data,
        dev_path=None,
        out=out,
        resume=resume,
        device=pick_device(device),
        tensorboard=False,
        curve=False,
        cache_dir=None,
        predict={},
    )
    reader = recipe.training.init
    with job.folder():
        setup = job.prepare(job.device, resume)
        # Whoever names a teacher wants to learn from that one.
        if pointer_only and not recipe.training.teacher:
            setup = only_pointer(setup, reader)
        result = job.go(Run(setup))
        job.finish(setup, result)
        if result.finished:
            keep_refusals(setup, reader, result.best)
        return result


def _recipe(
    reader: str | Path,
    started: Recipe,
    rows: Examples,
    overrides: Sequence[str],
) -> Recipe:
    """Return the recipe of the run: settings by the number of examples, then those asked for.

    What is mixed in does not count: each example is to be learned from as often as without it.
    """
    settings = settings_for(len(rows.rows), started, _longest(rows))
    settings["inputs"] = to_tree(started)["inputs"]
    recipe = recipe_from(settings, overrides)
    return recipe_from(to_tree(recipe), [f"training.init={json.dumps(_name(reader))}"])


def _own_rows(encoded: Encoded) -> list[QuestionRow]:
    """Return the questions that come from the examples, not the ordinary ones mixed in."""
    pairs = zip(encoded.ids, rows_in(encoded), strict=True)
    return [row for id, row in pairs if not is_ordinary(id)]


def _tree(examples: Path, rows: Examples, able: bool) -> dict[str, Any]:
    """Return what is learned from, in SQuAD's layout."""
    if not able:
        return rows.tree()
    mixed = mix(rows)
    if not mixed.refused:
        say(
            f"{examples}: none of its questions could be put beside a passage that does not "
            "answer it, so these examples do not teach when to refuse; "
            "add rows without an answer and with is_impossible true."
        )
    return mixed.tree()


def _write_data(data: Path, tree: dict[str, Any]) -> None:
    """Write what is learned from into the run's folder; refuse a folder that holds other data."""
    content = json.dumps(tree).encode()
    if data.exists() and data.read_bytes() != content:
        raise UserError(f"{data.parent}: holds a tuning on other examples; give another folder.")
    write_whole(data, content)


def learns_pointer(count: int, recipe: Recipe) -> bool:
    """Return whether the pointer alone learns from so many examples.

    That keeps what a reader knows. One that cannot refuse is given nothing to keep, and learns as a
    whole.
    """
    return count < _MANY and recipe.network.no_answer


def settings_for(count: int, recipe: Recipe, longest: int) -> dict[str, Any]:
    """Return the sections of a recipe to tune a reader on so many examples.

    Few are learned from often in small batches, many a few times in larger ones. Of few examples
    the pointer alone learns: its rate is higher, and falls by itself. Of many all learns: the rate
    falls, and the run ends, where the held-out examples are answered no better. ``longest`` is the
    number of words of the longest answers.
    """
    pointer_only = learns_pointer(count, recipe)
    batch = int(2 ** np.clip(np.round(np.log2(count / 12)), 1, 5))  # 2 to 32
    epochs = float(np.clip(round(3000 / count), 3, 20))
    if pointer_only:
        batch = 16
        epochs = float(np.clip(round(750 / count), 4, 16))
    holdout = 0.2 if count < 1000 else 0.1
    steps = max(1, int(count * (1 - holdout)) // batch)  # per epoch
    training = {
        "epochs": epochs,
        "batch_size": batch,
        # Its own rate, unless that was for a gentle second stage.
        "rate": _POINTER_RATE if pointer_only else max(recipe.training.rate, 3e-4),
        "contextual_rate": min(recipe.training.contextual_rate, 5e-5),
        "schedule": "anneal" if pointer_only else "halve",
        "patience": 3,
        "warmup": max(1, round(0.1 * epochs * steps)),
        "ema": 0.9,
        "holdout": holdout,
        "max_context": recipe.training.max_context,
        "evaluate_every": 1.0,
        # Captured steps pay only where there are many.
        "graphs": not pointer_only,
    }
    decoding = {"max_length": max(recipe.decoding.max_length, longest)}
    return {"network": to_tree(recipe)["network"], "training": training, "decoding": decoding}


def _longest(rows: Examples) -> int:
    """Return the words of the longest answers, the longest hundredth aside."""
    words = []
    for _, _, question in rows.rows:
        words += [len(answer.text.split()) for answer in question.answers]
    return int(np.ceil(np.quantile(words, 0.99)))


def _name(reader: str | Path) -> str:
    """Return what ``training.init`` calls a reader: its shipped name, else its whole path."""
    path = find(reader)
    return str(path.resolve()) if path == Path(reader) else str(reader)


def _compare_all(sets: dict[str, list[QuestionRow]], before: Reader, after: Reader) -> list[Change]:
    """Return the scores on each set, answered and unanswered questions apart."""
    changes = []
    for name, rows in sets.items():
        answered = [row for row in rows if row.references]
        unanswered = [row for row in rows if not row.references]
        if answered:
            changes.append(_compare(name, answered, before, after))
        if unanswered and before.decision is not None:
            changes.append(_compare(f"{name}, not answered", unanswered, before, after))
    return changes


def _compare(name: str, rows: Sequence[QuestionRow], before: Reader, after: Reader) -> Change:
    old = _score(rows, before)
    new = _score(rows, after)
    refused = None
    if old.refused is not None and new.refused is not None:
        refused = (old.refused, new.refused)
    return Change(
        data=name,
        questions=len(rows),
        exact_match=(old.exact_match, new.exact_match),
        f1=(old.f1, new.f1),
        answered=bool(rows[0].references),
        refused=refused,
    )


@dataclass(frozen=True)
class _Scores:
    """Of one reader on one set, in percent."""

    exact_match: float
    f1: float
    refused: float | None


def _score(rows: Sequence[QuestionRow], reader: Reader) -> _Scores:
    """Score a reader on questions that are all answered, or all not."""
    exact = []
    overlap = []
    refusals = []
    for question in reader.read(rows):
        answers = question.answers(1)
        text = "" if answers.guess is None else answers.guess.text
        exact.append(exact_match(text, question.row.references))
        overlap.append(f1(text, question.row.references))
        refusals.append(not answers)
    refused = None
    if reader.decision is not None:
        refused = 100 * float(np.mean(refusals))
    if not rows[0].references:
        right = refused or 0.0
        return _Scores(right, right, refused)
    return _Scores(100 * float(np.mean(exact)), 100 * float(np.mean(overlap)), refused)


def _warn_of_lost_refusals(changes: list[Change], best: Path) -> None:
    """Say where the tuned reader answers what it should refuse more often than before."""
    for change in changes:
        if change.answered or change.refused is None:
            continue
        before, after = change.refused
        if after < before - _WORSE:
            say(
                f"{best}: of {change.data} it refuses {after:.0f} %, before it was {before:.0f} %; "
                "rows without an answer and with is_impossible true may help."
            )
