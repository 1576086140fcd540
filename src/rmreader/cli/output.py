"""Results on stdout: rich tables on a terminal, plain aligned text in a pipe, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from rmreader.core.console import one_line
from rmreader.core.errors import printable

if TYPE_CHECKING:
    from rmreader.reading.answers import Answer, RankedAnswers

# How an answer is set on a terminal by its doubt: its text, and the mark in its sentence.
STYLES = {
    "sure": ("bold green", "black on green"),
    "likely": ("green", "black on green"),
    "perhaps": ("italic yellow", "black on yellow"),
}

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
    """Print rows under a header; columns of numbers are flush right."""
    cells = [[_text(value) for value in row] for row in rows]
    flush_right = []
    for column in range(len(header)):
        flush_right.append(all(isinstance(row[column], int | float) for row in rows))
    if on_terminal():
        _print_grid(cells, header, flush_right, title)
    else:
        _print_aligned(cells, header, flush_right, title)


def _print_grid(
    cells: list[list[str]], header: Sequence[str], flush_right: list[bool], title: str
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        title_style="bold",
    )
    for name, is_right in zip(header, flush_right, strict=True):
        grid.add_column(name, justify="right" if is_right else "left", overflow="fold")
    for row in cells:
        grid.add_row(*map(Text, row))
    Console().print(grid)


def _print_aligned(
    cells: list[list[str]], header: Sequence[str], flush_right: list[bool], title: str
) -> None:
    if title:
        show(title)
    lines = [list(header), *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = []
        for cell, width, is_right in zip(line, widths, flush_right, strict=True):
            padded.append(cell.rjust(width) if is_right else cell.ljust(width))
        typer.echo("  ".join(padded).rstrip())


class PlacedAnswer(Protocol):
    """An answer that knows where it is."""

    @property
    def text(self) -> str:
        """The words of the passage."""

    @property
    def confidence(self) -> float:
        """The F1 to expect of it."""

    @property
    def answer(self) -> Answer:
        """With its places in the text that was read."""

    @property
    def place(self) -> str:
        """Its file and page; may be empty."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``."""


@dataclass(frozen=True)
class AnswerLine:
    """An answer as a person sees it, in parts of one line each."""

    doubt: str
    text: str
    remark: str
    """Its doubt, confidence and place."""
    before: str
    """The sentence before it, and after it."""
    after: str

    @classmethod
    def of(cls, answers: RankedAnswers[Any], placed: PlacedAnswer, lead: str = "") -> AnswerLine:
        """One of the answers; ``lead`` comes before a doubtful one."""
        doubt = answers.doubt(placed)
        before, after = placed.answer.around
        remark = f"{placed.confidence:.0%}"
        text = one_line(placed.text)
        if doubt != "perhaps":
            remark = f"{doubt}, {remark}"
        place = f"  {one_line(placed.place)}" if placed.place else ""
        lead = lead or ("perhaps: " if doubt == "perhaps" else "")
        return cls(doubt, lead + text, f"({remark}){place}", one_line(before), one_line(after))

    @property
    def marked(self) -> str:
        """The words to mark in the sentence."""
        return self.text.removeprefix("or perhaps: ").removeprefix("perhaps: ")


def show_answers(question: str, answers: RankedAnswers[Any]) -> None:
    """A question with its answers, each marked in its sentence; where there are none, why."""
    lines = [AnswerLine.of(answers, placed) for placed in answers]
    if answers and answers.runner_up is not None:
        lines.append(AnswerLine.of(answers, answers.runner_up, "or perhaps: "))
    if on_terminal():
        _print_coloured(question, lines, answers.refusal_lines())
    else:
        _print_plain(question, lines, answers.refusal_lines())


def _print_plain(question: str, lines: Sequence[AnswerLine], refusal: Sequence[str]) -> None:
    typer.echo(printable(question))
    for line in lines:
        sentence = f"{line.before}[{line.marked}]{line.after}"
        typer.echo(f"  {line.text}  {line.remark}   {sentence}")
    if not lines:
        typer.echo("\n".join(f"  {reason}" for reason in refusal))


def _print_coloured(question: str, lines: Sequence[AnswerLine], refusal: Sequence[str]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(printable(question), style="bold"))
    for line in lines:
        style, mark = STYLES[line.doubt]
        console.print(Text.assemble("  ", (line.text, style), (f"  {line.remark}", "dim")))
        marked = (line.marked, mark)
        console.print(Text.assemble("  ", (line.before, "dim"), marked, (line.after, "dim")))
    if not lines:
        reasons = "\n".join(f"  {reason}" for reason in refusal)
        console.print(Text(reasons, style="yellow"))


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
