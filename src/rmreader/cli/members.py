"""``rmreader members``: several trainings side by side, one view, one table of what came of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.learn import RecipeName
from rmreader.cli.output import Json, emit_json, note, table
from rmreader.errors import UserError


@app.command()
def members(
    recipe: RecipeName,
    train: Annotated[Path, typer.Option(help="Training questions, a SQuAD-format file.")],
    dev: Annotated[Path, typer.Option(help="Questions to report scores on; nothing is chosen by them.")],
    out: Annotated[Path, typer.Option(help="Folder in which each member gets a folder of its own.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings to change for all members.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many members: with the seeds 1, 2, 3 …", min=1)] = 4,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KEY=VALUE,…", help="A variant, trained with every seed; may be repeated."),
    ] = None,
    at_once: Annotated[int, typer.Option(help="How many to train side by side; 0 trains all at once.", min=0)] = 0,
    share: Annotated[
        int,
        typer.Option(help="Largest share of a GPU per member, in %, under MPS or on Ray; 0 chooses.", min=0, max=100),
    ] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …; by default the GPU if there is one.")] = None,
    on: Annotated[
        str,
        typer.Option(metavar="ray[://HOST:PORT]", help="Train on a Ray cluster whose machines see these folders."),
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Continue every member from its last checkpoint.")] = False,
    json: Json = False,
) -> None:
    """Train several readers side by side on one device: with several seeds, in several variants, or both.

    Stopping this command stops its trainings, each with a checkpoint; on Linux even killing it does.
    """
    from rmreader.config import load_recipe
    from rmreader.learning.members import refuse_seed, train_members, variants
    from rmreader.learning.outfolder import INIT_REMEDY, find_init

    refuse_seed(overrides or ())
    chosen = variants(vary or (), seeds)
    settings = load_recipe(recipe, overrides or ())
    for member in chosen:  # a mistake in any of them is reported before the first one starts
        training = load_recipe(recipe, [*(overrides or ()), *member.overrides]).training
        if training.init and find_init(training.init) is None:
            raise UserError(f"training.init={training.init}: no such reader or run; {INIT_REMEDY}")
    shared = [*(overrides or ()), "--train", str(train), "--dev", str(dev), *(["--device", device] if device else [])]
    outcomes = train_members(recipe, settings, chosen, shared, out, at_once, resume, share, on=on)
    if json:
        emit_json([dataclasses.asdict(outcome) for outcome in outcomes])
    else:
        rows: list[tuple[object, ...]] = []
        for o in outcomes:
            state = "failed" if o.status else "done"
            for data, score in (o.scores or {"–": {}}).items():
                numbers = (score.get(name, "–") for name in ("exact_match", "f1"))
                rows.append((o.name, state, data, *numbers, round(o.seconds)))
        table(rows, ("member", "state", "data", "EM", "F1", "seconds"))
    for outcome in outcomes:
        if outcome.status:
            note(f"{outcome.name}: {outcome.problem}")
    if any(outcome.status for outcome in outcomes):
        raise typer.Exit(1)
