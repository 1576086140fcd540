"""``rmreader chat``: question after question about one passage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.read import Always, MinConfidence, Model
from rmreader.errors import UserError
from rmreader.files import cache_root


@app.command()
def chat(
    passage: Annotated[Path, typer.Argument(metavar="PASSAGE_FILE", help="File with the passage (UTF-8).")],
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, max=100, help="How many answers to each question, best first.")] = 3,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
) -> None:
    """Ask question after question about a passage; :help says what else can be typed."""
    from rich.console import Console

    from rmreader.reading.answering.reader import Reader
    from rmreader.shelf.chat import Chat, remember
    from rmreader.shelf.passages import read_passage

    if sys.stdin is None or sys.stdout is None:
        raise UserError("a conversation needs standard input and output, and one of them is closed.")
    text = read_passage(passage)
    save = remember(cache_root() / "chat-history")
    try:
        Chat(Reader.load(model), text, Console(highlight=False), top, min_confidence, always).run(input)
    finally:
        save()
