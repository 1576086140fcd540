"""``python -m lab members``: several trainings side by side."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.app import app
from lab.members import Outcome
from rmreader.cli.output import Json, emit_json, note, table
from rmreader.cli.train import RecipeName
from rmreader.core.errors import UserError

Train = Annotated[Path, typer.Option(help="Training questions, a SQuAD-format file.")]
Dev = Annotated[
    Path,
    typer.Option(help="Questions to report scores on; nothing is chosen by them."),
]
Out = Annotated[Path, typer.Option(help="Folder in which each member gets a folder of its own.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings to change for all members."),
]
Seeds = Annotated[int, typer.Option(help="How many members: with the seeds 1, 2, 3 …", min=1)]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME:KEY=VALUE,…",
        help="A variant, trained with every seed; may be repeated.",
    ),
]
AtOnce = Annotated[
    int,
    typer.Option(help="How many to train side by side; 0 trains all at once.", min=0),
]
Share = Annotated[
    int,
    typer.Option(help="Max GPU share per member in % (MPS, Ray); 0 = automatic.", min=0, max=100),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 …; by default the GPU if there is one."),
]
On = Annotated[
    str,
    typer.Option(
        metavar="ray[://HOST:PORT]",
        help="Train on a Ray cluster whose machines see these folders.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue every member from its last checkpoint."),
]


@app.command()
def members(
    recipe: RecipeName,
    train: Train,
    dev: Dev,
    out: Out,
    overrides: Overrides = None,
    seeds: Seeds = 4,
    vary: Vary = None,
    at_once: AtOnce = 0,
    share: Share = 0,
    device: Device = None,
    on: On = "",
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Train several readers side by side on one device: several seeds, several variants, or both.

    Stopping this command stops its trainings, each with a checkpoint; on Linux even killing it
    does.
    """
    from lab.members import refuse_seed, train_members, variants
    from rmreader.core.recipe import load_recipe

    overrides = overrides or []
    refuse_seed(overrides)
    chosen = variants(vary or (), seeds)
    settings = load_recipe(recipe, overrides)
    for member in chosen:  # a mistake in any of them is reported before the first one starts
        _check_start(recipe, [*overrides, *member.overrides])

    options = [*overrides, "--train", str(train), "--dev", str(dev)]
    if device:
        options += ["--device", device]
    outcomes = train_members(
        recipe,
        settings,
        chosen,
        options,
        out,
        at_once,
        resume,
        share,
        on=on,
    )
    if json:
        emit_json([dataclasses.asdict(outcome) for outcome in outcomes])
    else:
        _print_scores(outcomes)
    failed = [outcome for outcome in outcomes if outcome.status]
    for outcome in failed:
        note(f"{outcome.name}: {outcome.problem}")
    if failed:
        raise typer.Exit(1)


def _check_start(recipe: str, overrides: Sequence[str]) -> None:
    """Refuse a member whose settings are wrong or whose start does not exist."""
    from rmreader.core.recipe import load_recipe
    from rmreader.training.run_folder import INIT_REMEDY, find_init

    init = load_recipe(recipe, overrides).training.init
    if init and find_init(init) is None:
        raise UserError(f"training.init={init}: no such reader or run; {INIT_REMEDY}")


def _print_scores(outcomes: Sequence[Outcome]) -> None:
    """One line for each member and data set."""
    rows: list[tuple[object, ...]] = []
    for outcome in outcomes:
        state = "failed" if outcome.status else "done"
        scores = outcome.scores or {"–": {}}
        for data, score in scores.items():
            exact = score.get("exact_match", "–")
            f1 = score.get("f1", "–")
            rows.append((outcome.name, state, data, exact, f1, round(outcome.seconds)))
    table(rows, ("member", "state", "data", "EM", "F1", "seconds"))
