"""Give it a passage and a question, it points at the answer.

The Reinforced Mnemonic Reader (Hu et al., IJCAI 2018).

>>> from rmreader import Reader
>>> Reader.load().ask("Who wrote it?", "The letter was written by Ada Lovelace.")[0].text
'Ada Lovelace'
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from rmreader.core.errors import UserError
from rmreader.core.version import __version__

if TYPE_CHECKING:
    from rmreader.core.recipe import Recipe
    from rmreader.documents.shelf import Shelf
    from rmreader.integrations.pipeline import pipeline
    from rmreader.reading.answers import Answer, Answers
    from rmreader.reading.ensemble import Ensemble
    from rmreader.reading.explanation import Explanation
    from rmreader.reading.highlight import highlight
    from rmreader.reading.reader import Reader
    from rmreader.scoring.squad import Score
    from rmreader.training.trainer import TrainResult

__all__ = [
    "Answer",
    "Answers",
    "Ensemble",
    "Explanation",
    "Reader",
    "Shelf",
    "UserError",
    "__version__",
    "evaluate",
    "highlight",
    "pipeline",
    "train",
]

_HOMES = {
    "Answer": "reading.answers",
    "Answers": "reading.answers",
    "Ensemble": "reading.ensemble",
    "Explanation": "reading.explanation",
    "Reader": "reading.reader",
    "Shelf": "documents.shelf",
    "highlight": "reading.highlight",
    "pipeline": "integrations.pipeline",
}


def train(
    recipe: str | PathLike[str] | Recipe,
    *,
    train: str | PathLike[str],
    out: str | PathLike[str],
    dev: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str | None = None,
    curve: bool = False,
    tensorboard: bool = False,
) -> TrainResult:
    """Train a reader, exactly as ``rmreader train`` does; its folder is the result's ``best``.

    ``recipe`` is the name of one that comes with rmreader ("small", "base", "paper", "tiny" …),
    a YAML file, or a ``Recipe``; ``settings`` changes it, as in
    ``{"training.epochs": 2, "training.init": "small"}``. ``train`` and ``dev`` are SQuAD files,
    or tables with answers. Every choice is made on held-out articles of ``train``; ``dev`` is only
    reported on: at the end, and with ``curve`` at every evaluation. ``out`` is the folder of the
    run; ``resume`` continues one that was stopped. ``device`` is the GPU where there is one, else
    the CPU. Needs ``rmreader[train]``.

    >>> result = train("tiny", train="mine.json", out="runs/mine")  # doctest: +SKIP
    >>> Reader.load(result.best).ask("Who wrote it?", "Ada wrote it.")  # doctest: +SKIP
    """
    import json
    from pathlib import Path

    from rmreader.core.recipe import Recipe, load_recipe, recipe_from, to_tree
    from rmreader.training.trainer import train as run

    changes = []
    for name, value in (settings or {}).items():
        changes.append(f"{name}={json.dumps(value, default=str)}")
    if isinstance(recipe, Recipe):
        changed = recipe_from(to_tree(recipe), changes)
    else:
        changed = load_recipe(Path(recipe), changes)
    return run(
        changed,
        Path(train),
        None if dev is None else Path(dev),
        Path(out),
        resume,
        device,
        tensorboard=tensorboard,
        curve=curve,
    )


def evaluate(
    reader: str | PathLike[str] | Reader,
    data: str | PathLike[str],
    *,
    min_confidence: float = 0.0,
) -> Score:
    """Exact match and F1 of a reader on a file with answers, in percent, by the official rule.

    ``reader`` is a loaded reader, the name of one that comes with rmreader, or a reader's folder;
    several names with commas between them are an ensemble. An answer less sure than
    ``min_confidence`` counts as none given.

    >>> evaluate("small", "examples/mine.csv").total
    40
    """
    from pathlib import Path

    from rmreader.data.examples import read_data
    from rmreader.reading.evaluate import evaluate as run
    from rmreader.reading.reader import Reader
    from rmreader.scoring.squad import Score

    dataset = read_data(Path(data))
    loaded = reader if isinstance(reader, Reader) else Reader.load(Path(reader))
    score = run(loaded, dataset, min_confidence).score
    assert isinstance(score, Score)
    return score


def __dir__() -> list[str]:
    """The public names, those that are not fetched yet too."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import the other public names on first use, so that importing the package stays fast."""
    if name in _HOMES:
        return getattr(import_module(f"rmreader.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rmreader' has no attribute {name!r}")
