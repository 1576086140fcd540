"""``rmreader index``: folders of documents that can be asked; and ``ask --index``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, show_found

_SHOWN = 10  # refused files that are named


@app.command()
def index(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER", help="Folders, or single documents.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="The index: a file, or http://HOST:9200/NAME of OpenSearch.")
    ] = "shelf.rmindex",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that read documents.")] = None,
    json: Json = False,
) -> None:
    """Make folders of documents askable, or bring an index up to date: only what has changed is read again.

    Text, Markdown, HTML, Word (.docx) and PDF are read. It can be stopped at any moment, and asked meanwhile.
    """
    from rmreader.shelf.shelf import Shelf

    shelf = Shelf.open(out)
    done = shelf.add(*folders, workers=workers)
    if json:
        emit_json(dataclasses.asdict(done))
        return
    for sentence in [*done.notes, *done.refused][:_SHOWN]:
        note(sentence)
    more = len(done.notes) + len(done.refused) - _SHOWN
    if more > 0:
        note(f"and {more:,} more remarks; --json lists them all.")
    counts = f"{done.added:,} new, {done.changed:,} changed, {done.removed:,} gone, {done.unchanged:,} as they were"
    note(f"{out}: {shelf.index.size():,} documents ({counts}); {len(done.refused):,} files that are no documents.")


def ask_shelf(
    questions: list[str], place: str, model: str, loading: dict[str, Any], json: bool, **options: Any
) -> None:
    """``rmreader ask --index``: each question of all documents."""
    from rmreader.reading.answering.reader import Reader
    from rmreader.shelf.shelf import Shelf

    index = Shelf.open(place).index
    index.size()  # which refuses what is no index, before a reader is loaded
    shelf = Shelf(index, Reader.load(model, **loading))
    for number, question in enumerate(questions):
        found = shelf.ask(question, **options)
        if json:
            tree: dict[str, Any] = {"question": question, "answers": [one.to_json() for one in found]}
            tree |= {"no_answer": found.none} if found.none is not None else {}
            tree |= {"guess": found.guess.to_json()} if not found and found.guess is not None else {}
            emit_json(tree)
            continue
        if number:
            typer.echo()
        show_found(question, [(one.answer, one.passage.text, one.place) for one in found], found.doubt())
