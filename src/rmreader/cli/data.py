"""``rmreader data``: get the public data sets, and see what is wrong with a file."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, table

data = typer.Typer(help="Get data, and check it.", no_args_is_help=True)
app.add_typer(data, name="data")


class Set(enum.StrEnum):
    """What can be downloaded."""

    squad = "squad"
    adversarial = "adversarial"
    glove = "glove"
    elmo = "elmo"


@data.command()
def download(
    name: Annotated[Set, typer.Argument(help="SQuAD 1.1, its adversarial sets, GloVe 6B 100d, or ELMo.")],
    to: Annotated[Path, typer.Option(help="Folder to put the files into.")] = Path("data"),
) -> None:
    """Fetch a public data set from its official address: checked, and resumed where it was cut."""
    from rmreader.data import download as downloads

    for file in downloads.SETS[name.value]:
        if not file.digest:
            note(f"{file.name}: its publisher gives no checksum, so only its size is checked.")
    for path in downloads.download(name.value, to):
        typer.echo(path)


@data.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A SQuAD-format file (.json, .json.gz).")],
    json: Json = False,
) -> None:
    """Validate a file row by row; status 1 where a row is bad."""
    from rmreader.data.check import check_file

    report = check_file(file)
    if json:
        emit_json(report.as_dict())
    else:
        counts = [
            ("articles", report.articles),
            ("paragraphs", report.paragraphs),
            ("questions", report.questions),
            ("impossible questions", report.impossible),
            ("answers", report.answers),
            ("answers on token boundaries", report.on_boundaries),
            ("problems", len(report.problems)),
        ]
        table(counts, ("what", "count"), str(file))
        if report.answers:
            typer.echo(f"{100 * report.on_boundaries / report.answers:.3f} % of the answers lie on token boundaries.")
        for problem in report.problems:
            typer.echo(problem)
    if report.problems:
        raise typer.Exit(1)
