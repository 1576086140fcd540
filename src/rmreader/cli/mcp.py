"""``rmreader mcp``: programs that speak the Model Context Protocol ask a passage, or an index."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from rmreader.cli.app import app, silence_stdout
from rmreader.cli.read import Model, Threads
from rmreader.errors import UserError


@app.command()
def mcp(
    model: Model = "small",
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="Ask its documents too: an index that `rmreader index` makes.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Serve the Model Context Protocol on standard input and output: a program asks a passage, or an index."""
    from rmreader.plugs.mcp import Server
    from rmreader.reading.answering.reader import Reader

    if sys.stdin is None or sys.stdout is None:
        raise UserError("standard input or output is closed; the program that asks must start this one.")
    reader, sink = Reader.load(model, threads=threads), sys.stdout.buffer
    shelf = None
    if index is not None:
        from rmreader.shelf.shelf import Shelf

        shelf = Shelf.open(index, reader)
        shelf.index.size()  # which refuses what is no index
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for messages alone
        Server(reader, shelf, sys.stdin.buffer, sink).run()
    try:
        sink.flush()
    except OSError:  # the program that asked has left, and nothing is wrong
        silence_stdout()
