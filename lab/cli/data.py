"""``python -m lab cloze``: questions by rule from plain prose."""

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.app import app
from rmreader.cli.output import show

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Prose: '= Title =', then its paragraphs."),
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="File to write, in SQuAD's layout 2.0 (.json, .json.gz)."),
]
PerThousand = Annotated[
    float,
    typer.Option(help="At most so many questions per thousand words.", min=0),
]
Workers = Annotated[int, typer.Option(help="Processes.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of every choice.", min=0)]


@app.command()
def cloze(
    files: Files,
    out: Out,
    per_thousand: PerThousand = 30,
    workers: Workers = 1,
    seed: Seed = 1,
) -> None:
    """Make questions by rule from plain prose, to pretrain a reader on."""
    from lab.scripts.cloze import cloze_files
    from rmreader.core.files.outputs import file_to_write
    from rmreader.data.squad import write_squad

    target = file_to_write(out, *files)
    articles = cloze_files(files, seed, per_thousand, workers)
    write_squad(articles, target)

    total = 0
    unanswerable = 0
    for article in articles:
        for paragraph in article.paragraphs:
            total += len(paragraph.questions)
            unanswerable += sum(question.impossible for question in paragraph.questions)
    show(
        f"{out}: {total:,} questions, {unanswerable:,} of them without an answer, "
        f"from {len(articles):,} articles."
    )
