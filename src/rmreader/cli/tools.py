"""``rmreader calibrate`` and ``doctor``: make confidences mean what they say; see what this installation can do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, table


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
    from rmreader.reading.answering.calibrate import calibrate as fit
    from rmreader.reading.answering.calibrate import held_out, questions_of

    able = open_folder(reader).recipe.network.no_answer
    found = fit(reader, held_out(reader, train) if train is not None else questions_of(data or Path(), able))
    if json:
        emit_json(dataclasses.asdict(found))
        return
    typer.echo(f"temperature {found.temperature:.3f}, from {found.questions:,} questions")
    if found.decision is not None:
        typer.echo(f"no answer is given where the chance that there is none is above {found.decision.threshold:.3f}")
    typer.echo(f"expected calibration error {found.error_before:.3f} before, {found.error_after:.3f} after")


@app.command()
def doctor(json: Json = False) -> None:
    """Versions, devices, kernels, shipped readers, and what is missing and how to get it."""
    from rmreader.doctor import diagnose

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
