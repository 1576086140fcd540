"""``rmreader calibrate``, ``doctor`` and ``readers``: make confidences mean what they say; see what is installed."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, show, table
from rmreader.core.console import counted
from rmreader.core.errors import UserError


@app.command()
def calibrate(
    reader: Annotated[Path, typer.Argument(metavar="READER", help="A reader's folder; its temperature is replaced.")],
    train: Annotated[
        Path | None, typer.Option(help="The file it was trained on: the articles that its recipe held out are taken.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Other questions that it did not learn from.")] = None,
    json: Json = False,
) -> None:
    """Fit the temperature of a reader's confidences on questions that it did not learn from."""
    if (train is None) == (data is None):
        raise typer.BadParameter("give either --train or --data, and not both.")
    from rmreader.readers.folder import open_folder
    from rmreader.reading.calibrate import ENOUGH, held_out, questions_of
    from rmreader.reading.calibrate import calibrate as fit

    able = open_folder(reader).recipe.network.no_answer
    found = fit(reader, held_out(reader, train) if train is not None else questions_of(data or Path(), able))
    if json:
        emit_json(dataclasses.asdict(found))
        return
    if found.questions < ENOUGH:
        note(
            f"{reader}: {counted(found.questions, 'question')} to fit chances on are few; {ENOUGH} or more are better."
        )
    typer.echo(f"temperature {found.temperature:.3f}, from {found.questions:,} questions")
    if found.decision is not None:
        typer.echo(f"no answer is given where the chance that there is none is above {found.decision.threshold:.3f}")
    typer.echo(f"expected calibration error {found.error_before:.3f} before, {found.error_after:.3f} after")


@app.command()
def doctor(json: Json = False) -> None:
    """Versions, devices, kernels, shipped readers, and what is missing and how to get it."""
    from rmreader.cli.doctor import diagnose

    found = diagnose()
    if json:
        emit_json(dataclasses.asdict(found))
        return
    rows = [*found.versions.items()]
    rows += [("device", device) for device in found.devices]
    rows += [(f"kernel {name}", state) for name, state in found.kernels.items()]
    rows += [(f"reader {r.name}", f"{r.bytes / 1e6:.1f} MB, {r.state}") for r in found.readers]
    rows += [("readers", "none shipped")] * (not found.readers)
    for extra in found.extras:
        missing = f"missing {', '.join(extra.missing)}: {extra.get}" if extra.missing else "present"
        rows.append((f"extra {extra.name}", missing))
    rows += [(f"folder {name}", place) for name, place in found.folders.items()]
    table(rows, ("what", "state"))


@app.command()
def readers(
    reader: Annotated[str, typer.Argument(metavar="READER", help="A reader, by name or folder: print its card.")] = "",
    json: Json = False,
) -> None:
    """The readers that ship, with their scores on SQuAD 1.1 dev; with a name or folder, that reader's card."""
    from rmreader.cli.doctor import shipped_readers
    from rmreader.core.files.manifest import CARD
    from rmreader.readers.folder import find, open_folder

    names = [reader] if reader else [one.name for one in shipped_readers()]
    folders = {name: open_folder(name) for name in names}
    if json:
        emit_json({name: folder.about | {"card": str(folder.path / CARD)} for name, folder in folders.items()})
    elif reader:
        if not (card := find(reader) / CARD).is_file():
            raise UserError(f"{card}: this reader has no card; reader.json beside it says what is known.")
        show(card.read_text(encoding="utf-8", errors="replace"))
    else:
        rows = []
        for name, folder in folders.items():
            score = folder.about.get("scores", {}).get("SQuAD 1.1 dev", {})
            rows.append((name, score.get("exact_match", ""), score.get("f1", ""), str(folder.path / CARD)))
        table(rows, ("reader", "exact match", "F1", "card"))
