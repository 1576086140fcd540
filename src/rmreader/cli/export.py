"""``rmreader export``: a trained reader for elsewhere."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import note

export = typer.Typer(no_args_is_help=True, help="A trained reader for elsewhere.")
app.add_typer(export, name="export")

Source = Annotated[str, typer.Argument(metavar="READER", help="A shipped reader by name, or a reader's folder.")]
Sources = Annotated[list[str], typer.Argument(metavar="READER", help="Two or more, by name or folder.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")]
Storage = StrEnum("Storage", ["float32", "float16", "int8"])  # how weights are stored
Precision = StrEnum("Precision", ["float", "int8"])  # what the large products are made of


@export.command()
def onnx(reader: Source, out: Annotated[Path, typer.Option("--out", "-o", help="The .onnx file to write.")]) -> None:
    """One .onnx file for any runtime, attentions included; not written unless it equals torch's network."""
    from rmreader.reading.export import export_onnx

    difference = export_onnx(reader, out)
    note(f"{out}: {out.stat().st_size / 1e6:.1f} MB, within {difference:.1e} of the network.")


@export.command()
def small(
    reader: Source,
    out: Out,
    weights: Annotated[Storage, typer.Option(help="How the weights are stored.")] = Storage.float16,
    precision: Annotated[Precision, typer.Option(help="What the large products are made of.")] = Precision.float,
    data: Annotated[
        Path | None, typer.Option(help="A SQuAD-format file: what is lost on it is measured, and bounded.")
    ] = None,
) -> None:
    """A reader's folder with smaller weights, fit to ship; 8-bit products where they lose at most 0.1 F1."""
    from rmreader.reading.export import shrink

    loss = shrink(reader, out, weights.value, precision.value, data)  # type: ignore[arg-type]
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    measured = f", F1 {loss.before:.2f} before and {loss.after:.2f} after" if loss else ""
    note(f"{out}: {size / 1e6:.1f} MB{measured}.")


@export.command()
def average(readers: Sources, out: Out) -> None:
    """One reader whose weights are the mean of several, all trained from the same start, say with other seeds."""
    from rmreader.readers.folder import find
    from rmreader.training.average import average as write_average

    temperature = write_average([find(reader) for reader in readers], out)
    note(
        f"{out}: the mean of {len(readers)} readers, not measured yet. Its temperature, {temperature:.3f}, is the mean "
        "of theirs; rmreader calibrate fits it anew, on questions that none of them learned from."
    )


@export.command()
def ensemble(readers: Sources, out: Out) -> None:
    """Several readers in one folder, which then loads by one name and answers with the mean of their probabilities."""
    from rmreader.reading.export import ensemble as write

    costs = write(readers, out)
    parts = ", ".join(f"{name} {cost:.1f} ms" for name, cost in costs.items())
    note(f"{out}: {len(costs)} readers, {sum(costs.values()):.1f} ms per question here ({parts}).")
