"""Results on stdout: rich tables where it is a terminal, plain aligned text in a pipe, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmreader.core.console import one_line
from rmreader.core.errors import printable

if TYPE_CHECKING:
    from rmreader.reading.answers import Answer

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

        grid = Table(title=Text(printable(title)) if title else None, title_justify="left", title_style="bold")
        for name, flush in zip(header, right, strict=True):
            grid.add_column(name, justify="right" if flush else "left", overflow="fold")
        for row in cells:
            grid.add_row(*(Text(cell) for cell in row))
        Console().print(grid)
        return
    widths = [max(len(row[k]) for row in [list(header), *cells]) for k in range(len(header))]
    if title:
        show(title)
    for row in [list(header), *cells]:
        line = (
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        typer.echo("  ".join(line).rstrip())


def show_found(question: str, found: Sequence[tuple[Answer, str, str]], doubt: str) -> None:
    """A question with its answers, each marked in its sentence, the passage and the place of each; where there are
    none, the doubt."""
    shown = []
    for answer, passage, file in found:
        sure, place = f"{answer.confidence:.0%}", f"  {one_line(file)}" if file else ""
        shown.append((one_line(answer.text), sure, place, *_around(answer, passage)))
    if not on_terminal():
        typer.echo(printable(question))
        for text, sure, place, before, after in shown:
            typer.echo(f"  {text}  ({sure}){place}   {before}[{text}]{after}")
        if not found:
            typer.echo(f"  {doubt}")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(printable(question), style="bold"))
    for text, sure, place, before, after in shown:
        console.print(Text.assemble("  ", (text, "bold green"), (f"  {sure}{place}", "dim")))
        console.print(Text.assemble("  ", (before, "dim"), (text, "black on green"), (after, "dim")))
    if not found:
        console.print(Text(f"  {doubt}", style="yellow"))


def _around(answer: Answer, passage: str) -> tuple[str, str]:
    """The rest of the answer's sentence, before and after it, on one line."""
    begin = passage.rfind(answer.sentence, 0, answer.start + len(answer.sentence))
    if begin < 0 or begin > answer.start:
        return "", ""
    before, after = passage[begin : answer.start], passage[answer.end : begin + len(answer.sentence)]
    return one_line(before), one_line(after)


def show(value: object) -> None:
    """A line on stdout, without what would command the terminal."""
    typer.echo(printable(str(value)))


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
