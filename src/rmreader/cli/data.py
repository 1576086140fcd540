"""``rmreader data``: get the public data sets, and see what is wrong with a file."""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmreader.cli.app import Group, app
from rmreader.cli.output import Json, emit_json, note, show, table

if TYPE_CHECKING:
    from rmreader.data.examples import Checked

data = typer.Typer(cls=Group, no_args_is_help=True, help="Download, check and extend data.")
app.add_typer(data, name="data")


# What can be downloaded.
Set = enum.StrEnum("Set", ["squad", "adversarial", "glove", "elmo"])


@data.command()
def download(
    name: Annotated[
        Set,
        typer.Argument(
            metavar="NAME", help="SQuAD 1.1, its adversarial sets, GloVe 6B 100d, or ELMo."
        ),
    ],
    to: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder to put the files into.")
    ] = Path("data"),
    sha256: Annotated[str, typer.Option(metavar="SUM", help="SHA-256 of ELMo's weights.")] = "",
) -> None:
    """Download a public data set from its official address; an interrupted download is resumed."""
    from rmreader.data import download as downloads

    if any(not file.digest for file in downloads.SETS[name.value]) and not sha256:
        note(
            "its publisher gives no checksums: size and shapes are checked, and the SHA-256 is "
            "left beside each file."
        )
    for path in downloads.download(name.value, to, sha256):
        show(path)


@data.command()
def check(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="SQuAD JSON, or JSON Lines, CSV, TSV (.gz too) or Parquet with answers.",
        ),
    ],
    json: Json = False,
) -> None:
    """Validate a file row by row; status 1 where a row is bad."""
    from rmreader.data.examples import check_file

    report = check_file(file)
    if json:
        emit_json(report.as_dict())
    else:
        _show_report(report)
    if report.problems:
        raise typer.Exit(1)


def _show_report(report: "Checked") -> None:
    rows = []
    for name, value in vars(report).items():
        if name != "file":
            count = value if isinstance(value, int) else len(value)
            rows.append((name.replace("_", " "), count))
    table(rows, ("what", "count"), report.file)
    if report.answers:
        share = 100 * report.on_boundaries / report.answers
        typer.echo(f"{share:.3f} % of the answers lie on token boundaries.")
    for problem in report.ambiguous:
        show(f"ambiguous: {problem}")
    for problem in report.problems:
        show(problem)


Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="File to write, in SQuAD's layout 2.0 (.json, .json.gz).",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of every choice.", min=0)]


@data.command()
def negatives(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A SQuAD-format file to learn from.")
    ],
    out: Out,
    near: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Share of questions asked of another paragraph of their article."
        ),
    ] = 0.3,
    far: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Share of questions asked of a paragraph of another article."
        ),
    ] = 0.1,
    cut: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Share of questions asked of their own paragraph without the answering sentence.",
        ),
    ] = 0.0,
    hurried: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Share of questions typed in a hurry: no question mark, no capitals, a slip.",
        ),
    ] = 0.0,
    seed: Seed = 1,
) -> None:
    """Add questions that their passage does not answer.

    They are real questions, asked of the nearest paragraph without the answer, or of their own
    without the sentence that answers.
    """
    from rmreader.core.files.outputs import file_to_write
    from rmreader.data.negatives import with_hurried, with_negatives
    from rmreader.data.squad import read_squad, write_squad

    real = file_to_write(out, file)
    before = read_squad(file)
    after = with_hurried(with_negatives(before, near, far, seed, cut), hurried, seed)
    write_squad(after.articles, real)
    count_before = sum(1 for _ in before.questions())
    count_after = sum(1 for _ in after.questions())
    show(f"{out}: {count_after:,} questions, {count_after - count_before:,} of them new.")
