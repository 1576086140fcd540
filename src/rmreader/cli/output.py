"""Results on stdout: rich tables where it is a terminal, plain aligned text in a pipe, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rmreader.console import printable

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def on_terminal() -> bool:
    """Whether a person is looking."""
    return sys.stdout is not None and sys.stdout.isatty()  # None where it was closed


def emit_json(value: Any) -> None:
    """One line of JSON; characters that the output cannot hold (or lone surrogates) are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    typer.echo(text)


def table(rows: Sequence[Sequence[object]], header: Sequence[str], title: str = "") -> None:
    """Rows under a header; numbers are set flush right."""
    cells = [[_text(value) for value in row] for row in rows]
    right = [all(isinstance(row[k], int | float) for row in rows) for k in range(len(header))]
    if on_terminal():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table(title=title or None, title_justify="left", title_style="bold")
        for name, flush in zip(header, right, strict=True):
            grid.add_column(name, justify="right" if flush else "left", overflow="fold")
        for row in cells:
            grid.add_row(*(Text(cell) for cell in row))
        Console().print(grid)
        return
    widths = [max(len(row[k]) for row in [list(header), *cells]) for k in range(len(header))]
    if title:
        typer.echo(title)
    for row in [list(header), *cells]:
        line = (
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        typer.echo("  ".join(line).rstrip())


def note(text: str) -> None:
    """A remark on stderr, beside the results."""
    typer.echo(printable(text), err=True)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(str(value))
