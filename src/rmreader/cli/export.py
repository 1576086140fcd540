"""``rmreader export``: a trained reader written again, smaller or several as one."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import Group, app
from rmreader.cli.output import note
from rmreader.core.errors import UserError

export = typer.Typer(cls=Group, no_args_is_help=True, help="Export a trained reader.")
app.add_typer(export, name="export")

Source = Annotated[
    str, typer.Argument(metavar="READER", help="A shipped reader's name, or a reader's folder.")
]
Sources = Annotated[
    list[str], typer.Argument(metavar="READER", help="Two or more readers, by name or folder.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The folder to write.")]
Storage = StrEnum("Storage", ["float32", "float16", "int8"])  # how weights are stored
Precision = StrEnum("Precision", ["float", "int8"])  # what the large products are made of


@export.command(
    hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def onnx() -> None:
    """Removed: says what to do instead."""
    raise UserError(
        "export onnx was removed: a reader's folder runs without torch already "
        "(rmreader.Reader.load), and it alone is compared with the network in torch."
    )


@export.command()
def small(
    reader: Source,
    out: Out,
    weights: Annotated[Storage, typer.Option(help="How the weights are stored.")] = Storage.float16,
    precision: Annotated[
        Precision, typer.Option(help="What large matrix products are computed in.")
    ] = Precision.float,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A SQuAD-format file; the loss of F1 is measured on it, 0.1 at most.",
        ),
    ] = None,
) -> None:
    """Write a reader's folder with smaller weights, and 8-bit products if they lose at most 0.1 F1.

    Where torch is installed, the result is compared with the network in torch.
    """
    from rmreader.reading.export import shrink

    loss = shrink(reader, out, weights.value, precision.value, data)  # type: ignore[arg-type]
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    measured = f", F1 {loss.before:.2f} before and {loss.after:.2f} after" if loss else ""
    note(f"{out}: {size / 1e6:.1f} MB{measured}.")


@export.command()
def average(readers: Sources, out: Out) -> None:
    """Write one reader whose weights are the mean of several.

    All must have been trained from the same start, for example with other seeds.
    """
    from rmreader.readers.folder import find
    from rmreader.training.average import average as write_average

    temperature = write_average([find(reader) for reader in readers], out)
    note(
        f"{out}: the mean of {len(readers)} readers, not measured yet. Its temperature, "
        f"{temperature:.3f}, is the mean of theirs; fit it on questions that none of them learned "
        "from: rmreader calibrate."
    )


@export.command()
def ensemble(readers: Sources, out: Out) -> None:
    """Write several readers as one folder, which loads by one name.

    It answers with the mean of their probabilities.
    """
    from rmreader.reading.export import ensemble as write

    costs = write(readers, out)
    parts = ", ".join(f"{name} {cost:.1f} ms" for name, cost in costs.items())
    note(f"{out}: {len(costs)} readers, {sum(costs.values()):.1f} ms per question here ({parts}).")
