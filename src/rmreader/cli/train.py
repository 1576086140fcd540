"""``rmreader train``, ``tune`` and ``recipe``: train readers, and see every setting there is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, table
from rmreader.core.errors import UserError

if TYPE_CHECKING:
    from rmreader.core.recipe import Recipe

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RECIPE] [KEY=VALUE]...", help="A recipe, and settings to change."),
]


RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help=(
            "A recipe that comes with rmreader, by name (small, base, paper, tiny …), "
            "or a YAML file."
        ),
    ),
]

Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from the last checkpoint in the folder.")
]
Device = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="cpu, cuda, cuda:1 …; by default the GPU if there is one."),
]


def split_words(words: list[str] | None) -> tuple[str | None, list[str]]:
    """The recipe, if the first word is no setting, and the settings to change."""
    words = words or []
    return (words[0], words[1:]) if words and "=" not in words[0] else (None, words)


def recipe_of(words: list[str] | None) -> Recipe:
    """The recipe that the words of ``[RECIPE] [KEY=VALUE]...``
    make; the defaults changed where no file is named."""
    from rmreader.core.recipe import load_recipe, recipe_from

    name, overrides = split_words(words)
    return load_recipe(name, overrides) if name else recipe_from({}, overrides)


@app.command()
def train(
    recipe: RecipeName,
    train: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Questions with answers: SQuAD JSON, JSON Lines, CSV, TSV or Parquet.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the run: log, checkpoints, and the trained reader in best/.",
        ),
    ],
    dev: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Questions to report scores on; nothing is chosen by them."
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings to change, as network.blocks=2."),
    ] = None,
    resume: Resume = False,
    device: Device = None,
    curve: Annotated[
        bool, typer.Option("--curve", help="Report dev scores at every evaluation, too.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard files beside the log.")
    ] = False,
    predict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Answer these questions too at the end, into predictions/NAME.json.",
        ),
    ] = None,
    # the process that starts this one and ends it
    parent: Annotated[int, typer.Option(hidden=True)] = 0,
    json: Json = False,
) -> None:
    """Train a reader; --resume continues a run that was stopped."""
    if parent:
        from rmreader.core.processes import end_with

        end_with(parent)
    from rmreader.core.recipe import load_recipe

    settings = load_recipe(recipe, overrides or ())
    from rmreader.training.parallel import is_main
    from rmreader.training.trainer import train as run

    files = {name: Path(path) for name, _, path in (word.partition("=") for word in predict or ())}
    for name, path in files.items():
        if not path.is_file():
            raise UserError(
                f"--predict {name}: write it as NAME=FILE, a SQuAD-format file; {path} is not one."
            )
    result = run(
        settings,
        train,
        dev,
        out,
        resume,
        device,
        tensorboard=tensorboard,
        curve=curve,
        predict=files,
    )
    if not result.finished:  # it has saved itself and said how to go on
        raise typer.Exit(130)
    if not is_main():
        return
    if json:
        emit_json(dataclasses.asdict(result) | {"best": str(result.best)})
        return
    if result.selection is not None:
        typer.echo(f"F1 on held-out articles {result.selection:.3f}")
    if result.dev is not None:
        table(
            [("dev", result.dev.exact_match, result.dev.f1, result.dev.total)],
            ("", "exact match", "F1", "questions"),
        )
    typer.echo(result.best)


@app.command(epilog="Example: rmreader tune small --train mine.csv --out mine")
def tune(
    reader: Annotated[
        str,
        typer.Argument(
            metavar="READER", help="The reader to start from: a name, as small, or a folder."
        ),
    ],
    train: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help=(
                "Examples: columns question, passage, answer in CSV, TSV, JSON Lines or Parquet; "
                "or SQuAD JSON."
            ),
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder of the run; the tuned reader is in best/."),
    ],
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="More examples, to report scores on; nothing is chosen by them."
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings to change, as training.epochs=5."),
    ] = None,
    resume: Resume = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Tune a trained reader on examples of your own, from tens to thousands.

    An answer needs no offset: it is looked for in its passage. A part of the examples
    is held out; it decides when to stop, and scores before and after are on it.
    """
    from rmreader.readers.folder import find

    find(reader)  # a wrong name is refused before torch is loaded, which takes seconds
    from rmreader.training.tune import tune as run

    result = run(reader, train, out, test, overrides or (), resume, device)
    if not result.finished:
        raise typer.Exit(130)
    if json:
        emit_json(dataclasses.asdict(result) | {"best": str(result.best)})
        return
    rows: list[tuple[object, ...]] = []
    for change in result.changes:
        for k, state in enumerate(("before", "after")):
            scores = (change.exact_match[k], change.f1[k]) if change.answered else ("", "")
            refused = "" if change.refused is None else change.refused[k]
            rows.append((change.data, change.questions, state, *scores, refused))
    table(rows, ("data", "questions", "", "exact match", "F1", "refused"))
    typer.echo(f'rmreader ask --model {result.best} --passage FILE "question"')


@app.command()
def recipe(words: Words = None, json: Json = False) -> None:
    """Print every setting: help, default, what it may be, and its value in a recipe."""
    from rmreader.core.recipe import Recipe

    shown = recipe_of(words)
    sections = {
        section.name: _settings(getattr(shown, section.name))
        for section in dataclasses.fields(Recipe)
    }
    if json:
        emit_json(sections)
        return
    for name, settings in sections.items():
        rows = [
            (f"{name}.{key}", *(_plain(cell) for cell in one.values()))
            for key, one in settings.items()
        ]
        table(rows, ("setting", "value", "default", "allowed", "help"), name)


def _settings(section: Any) -> dict[str, dict[str, Any]]:
    """Every field of a recipe's section: value, default, what it may be, help."""
    from rmreader.core.settings import field_help, field_ranges

    helps = field_help(type(section))
    ranges = field_ranges(type(section))
    return {
        field.name: {
            "value": getattr(section, field.name),
            "default": field.default,
            "allowed": ranges[field.name],
            "help": helps[field.name],
        }
        for field in dataclasses.fields(section)
    }


def _plain(value: object) -> str:
    """A value as a recipe would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
