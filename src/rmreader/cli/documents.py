"""``rmreader index``: folders of documents that can be asked; and ``chat``, question after question about them."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note
from rmreader.cli.read import Always, Index, MinConfidence, Model
from rmreader.core.console import counted
from rmreader.core.errors import UserError
from rmreader.core.files.cache import cache_root

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
    from rmreader.documents.shelf import Shelf

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
    there = counted(shelf.index.size(), "document")
    note(f"{out}: {there} ({counts}); {counted(len(done.refused), 'file')} that cannot be read.")


@app.command()
def chat(
    passage: Annotated[Path | None, typer.Argument(metavar="PASSAGE_FILE", help="Document with the passage.")] = None,
    index: Index = None,
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, max=100, help="How many answers to each question, best first.")] = 3,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
) -> None:
    """Ask question after question about a passage or an index; :help says what else can be typed."""
    from rich.console import Console

    from rmreader.cli.chat import Chat, ShelfChat, remember
    from rmreader.documents.passages import read_passage
    from rmreader.documents.shelf import Shelf
    from rmreader.reading.reader import Reader

    if sys.stdin is None or sys.stdout is None:
        raise UserError("a conversation needs standard input and output, and one of them is closed.")
    if (passage is None) == (index is None):
        raise typer.BadParameter("give either a document or --index, and not both.")
    console = Console(highlight=False)
    if index is not None:
        talk: Chat = ShelfChat(Shelf.open(index, Reader.load(model)), console, top, min_confidence, always)
    else:
        text = read_passage(str(passage))
        talk = Chat(Reader.load(model), text, console, top, min_confidence, always)
    save = remember(cache_root() / "chat-history")
    try:
        talk.run(input)
    finally:
        save()
