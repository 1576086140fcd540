"""What a person is told: sentences and progress. All of it goes to stderr, so that stdout holds results alone."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rmreader.core.errors import printable

muted = False
"""Whether another process speaks for this one."""


def one_line(text: str) -> str:
    """The same with every white space as one blank."""
    return printable(re.sub(r"\s+", " ", text))


def counted(number: int, what: str) -> str:
    """So many of it: 1 answer, 2 answers."""
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def say(sentence: str) -> None:
    """Tell the person at the keyboard something."""
    if not muted and sys.stderr is not None:  # as where it was closed
        print(printable(sentence), file=sys.stderr, flush=True)  # above a progress bar, which takes the place of stderr


class Advance(Protocol):
    """Moves a progress bar on."""

    def __call__(self, amount: float = 1.0, text: str | None = None) -> None:
        """So much more is done; ``text`` takes the place of the unit after the count."""


@contextmanager
def progress(description: str, total: float | None = None, unit: str = "", transient: bool = True) -> Iterator[Advance]:
    """A progress bar; call what it yields with how much more is done. Silent where stderr is no terminal."""
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    what = bars.TextColumn("{task.description}", markup=False)
    clocks = bars.TimeElapsedColumn(), bars.TimeRemainingColumn()
    columns = what, bars.BarColumn(), bars.MofNCompleteColumn(), "{task.fields[text]}", *clocks
    with bars.Progress(*columns, console=console, transient=transient, disable=muted or not console.is_terminal) as bar:
        task = bar.add_task(printable(description), total=total, text=unit)

        def advance(amount: float = 1.0, text: str | None = None) -> None:
            bar.update(task, advance=amount, text=unit if text is None else text)

        yield advance
