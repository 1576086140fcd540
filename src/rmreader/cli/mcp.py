"""``rmreader mcp``: programs that speak the Model Context Protocol ask a passage, or an index."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.read import Model, Threads
from rmreader.errors import UserError


@app.command()
def mcp(
    model: Model = "small",
    index: Annotated[
        Path | None, typer.Option(help="An index of documents (`rmreader index`), to be asked too.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Serve the Model Context Protocol on standard input and output: a program asks a passage, or an index."""
    from rmreader.plugs.mcp import Server
    from rmreader.reading.answering.reader import Reader

    if sys.stdin is None or sys.stdout is None:
        raise UserError("standard input or output is closed; the program that asks must start this one.")
    reader = Reader.load(model, threads=threads)
    search = None
    if index is not None:
        from rmreader.plugs.indexed import searcher

        search = searcher(index, reader)
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for messages alone
        Server(reader, search, sys.stdin.buffer, sys.__stdout__.buffer).run()
