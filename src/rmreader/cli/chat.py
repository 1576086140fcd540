"""``rmreader chat``: question after question about a document, or about all of an index."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.read import Always, Index, MinConfidence, Model
from rmreader.errors import UserError
from rmreader.files import cache_root


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

    from rmreader.reading.answering.reader import Reader
    from rmreader.shelf.chat import Chat, ShelfChat, remember
    from rmreader.shelf.passages import read_passage
    from rmreader.shelf.shelf import Shelf

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
