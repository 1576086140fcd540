"""Sentences and progress for the person at the keyboard.

All of it goes to stderr, so that stdout holds results alone.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from rmreader.core.errors import printable

muted = False
"""True on ranks other than 0: print nothing."""

BETWEEN_LINES = 15.0
"""Seconds between lines that say how far a command is, where there is no terminal."""


def one_line(text: str) -> str:
    """Replace every run of white space by one blank."""
    return printable(re.sub(r"\s+", " ", text))


def counted(number: int, what: str) -> str:
    """Count with plural: 1 answer, 2 answers."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {what}{plural}"


def say(sentence: str) -> None:
    """Tell the person at the keyboard something."""
    if muted or sys.stderr is None:  # None where it was closed
        return
    # Flushed: a progress bar redirects stderr and prints this above itself.
    print(printable(sentence), file=sys.stderr, flush=True)


class Advance(Protocol):
    """Moves a progress bar on."""

    def __call__(self, amount: float = 1.0, text: str | None = None) -> None:
        """Add ``amount`` to what is done; ``text`` replaces the unit after the count."""


@contextmanager
def progress(
    description: str,
    total: float | None = None,
    unit: str = "",
    transient: bool = True,
    lines: bool = False,
) -> Iterator[Advance]:
    """Show a progress bar; call what it yields with how much more is done.

    Where stderr is no terminal, it is silent, or with ``lines`` says how far it is from time to
    time.
    """
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    if muted or not console.is_terminal:
        # No bar at all: older versions of rich end even one that is disabled with an empty line.
        yield ProgressLines(description, total, unit) if lines else no_progress
        return
    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        "{task.fields[text]}",
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console, transient=transient) as bar:
        task = bar.add_task(printable(description), total=total, text=unit)

        def advance(amount: float = 1.0, text: str | None = None) -> None:
            bar.update(task, advance=amount, text=unit if text is None else text)

        yield advance


def no_progress(amount: float = 1.0, text: str | None = None) -> None:
    """Show nothing."""


class ProgressLines:
    """Says in a line from time to time how far a command is."""

    def __init__(self, description: str, total: float | None, unit: str) -> None:
        self.description = description
        self.of = "" if total is None else f" of {total:,.0f}"
        self.unit = unit
        self.done = 0.0
        self.last_line = monotonic()

    def __call__(self, amount: float = 1.0, text: str | None = None) -> None:
        """Add ``amount`` to what is done; ``text`` replaces the unit after the count."""
        self.done += amount
        if monotonic() - self.last_line > BETWEEN_LINES:
            self.last_line = monotonic()
            text = self.unit if text is None else text
            say(f"{self.description}: {self.done:,.0f}{self.of} {text}".rstrip())
