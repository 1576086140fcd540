"""A conversation about a passage or an index.

Answers are shown in a table, and marked in the passage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rmreader.cli.output import STYLES
from rmreader.core.console import one_line
from rmreader.core.errors import UserError, printable
from rmreader.documents.passages import read_passage
from rmreader.documents.shelf import Shelf
from rmreader.reading.answers import Answer, Answers
from rmreader.reading.doubt import Doubt
from rmreader.reading.reader import Reader

PROMPT = "? "

# Characters of passage that are shown; of a longer one, those around the answers.
_SHOWN = 1500
_AROUND = 200

# Of the best answer, the second, the others.
_STYLES = ("black on green", "black on yellow", "black on cyan")

HELP = """\
Type a question about the passage. Besides:
  :top N          show N answers to each question
  :passage        show the whole passage, the last answers marked
  :open FILE      go on with another passage, or another index
  :help           this
  :quit           leave (or end of input)"""


class Chat:
    """One conversation; ``console`` is where it is shown."""

    def __init__(
        self,
        reader: Reader,
        passage: str,
        console: Console,
        top: int = 3,
        min_confidence: float = 0.0,
        always: bool = False,
    ) -> None:
        self.reader, self.passage, self.console = reader, passage, console
        self.top, self.min_confidence, self.always = top, min_confidence, always
        self.answers = Answers()

    def run(self, ask: Callable[[str], str]) -> None:
        """Take lines from ``ask`` (such as ``input``) until it ends or the person leaves."""
        self.console.print(Text(f"{self.begin()} :help says what can be typed.", style="dim"))
        while True:
            try:
                line = ask(PROMPT).strip()
            except EOFError:
                return
            except KeyboardInterrupt:  # gives up the line, not the conversation
                self.console.print()
                continue
            try:
                if not self.take(line):
                    return
            except UserError as error:
                self.console.print(Text(str(error), style="red"))

    def begin(self) -> str:
        """What is asked, in a sentence."""
        return f"{len(self.passage.split()):,} words read."

    def take(self, line: str) -> bool:
        """Answer one line; False where it was the last."""
        command, _, rest = line.partition(" ")
        if not line:
            return True
        if not line.startswith(":"):
            self.answer(line)
        elif command in (":quit", ":q", ":exit"):
            return False
        elif command == ":top":
            if rest.strip() not in map(str, range(1, 101)):
                raise UserError(":top takes a number from 1 to 100.")
            self.top = int(rest)
        elif command == ":passage":
            self.console.print(Panel(marked(self.passage, self.answers)))
        elif command == ":open":
            self.open(rest.strip())
            self.console.print(Text(self.begin(), style="dim"))
        else:
            if command not in (":help", ":h", ":?"):
                self.console.print(Text(f"{command}: no such command.", style="red"))
            self.console.print(Text(HELP))
        return True

    def open(self, place: str) -> None:
        """Go on with another."""
        self.passage, self.answers = read_passage(place), Answers()

    def answer(self, question: str) -> None:
        """Show the answers to a question, and where they are."""
        self.answers = self.reader.ask(
            question,
            self.passage,
            top=self.top,
            min_confidence=self.min_confidence,
            always=self.always,
        )
        if not self.answers:
            self.console.print(Text("\n".join(self.answers.refusal_lines()), style="yellow"))
            return
        doubts = [self.answers.doubt(answer) for answer in self.answers]
        self.console.print(table(self.answers, doubts))
        self.console.print(Padding(excerpt(self.passage, self.answers), (0, 1)))


class ShelfChat(Chat):
    """One conversation about a shelf; its passage is the one that the last answers are in."""

    def __init__(
        self,
        shelf: Shelf,
        console: Console,
        top: int = 3,
        min_confidence: float = 0.0,
        always: bool = False,
    ) -> None:
        super().__init__(shelf.reader, "", console, top, min_confidence, always)
        self.shelf = shelf
        self.open(str(shelf.place))

    def begin(self) -> str:
        """What is asked, in a sentence."""
        return f"{self.shelf.place}: {self.shelf.index.size():,} documents."

    def open(self, place: str) -> None:
        """Go on with another index."""
        self.shelf, self.passage, self.answers = Shelf.open(place, self.reader), "", Answers()
        self.shelf.index.size()  # which refuses what is none

    def answer(self, question: str) -> None:
        """Show the answers to a question, and where they are."""
        found = self.shelf.ask(
            question, top=self.top, min_confidence=self.min_confidence, always=self.always
        )
        if not found:
            self.console.print(Text("\n".join(found.refusal_lines()), style="yellow"))
            return
        best = found[0].passage
        self.passage = best.text
        self.answers = Answers(tuple(one.answer for one in found if one.passage.id == best.id))
        doubts = [found.doubt(one) for one in found]
        places = [one.place for one in found]
        self.console.print(table([one.answer for one in found], doubts, places))
        self.console.print(Padding(excerpt(self.passage, self.answers), (0, 1)))


def table(
    answers: Sequence[Answer],
    doubts: Sequence[Doubt],
    places: Sequence[str] = (),
) -> Table:
    """The answers, best first, with their doubts; ``places`` are the characters, unless given."""
    grid = Table(show_edge=False, pad_edge=False, header_style="dim")
    for name in ("", "answer", "doubt", "confidence", "score", "place"):
        grid.add_column(name, justify="left" if name == "answer" else "right", overflow="fold")
    for number, answer in enumerate(answers, start=1):
        bar = "█" * round(10 * answer.confidence)
        doubt = doubts[number - 1]
        cells = (
            f"{bar} {answer.confidence:.1%}",
            f"{answer.score:.2f}",
        )
        place = one_line(places[number - 1]) if places else f"{answer.start}–{answer.end}"
        grid.add_row(
            Text(f"{number}"),
            Text(one_line(answer.text), style=STYLES[doubt][0]),
            Text(doubt),
            *(Text(cell) for cell in cells),
            Text(place, style="dim"),
        )
    return grid


def excerpt(passage: str, answers: Sequence[Answer]) -> Text:
    """The passage with the answers marked; of a long one, what is around the best."""
    if len(passage) <= _SHOWN:
        return marked(passage, answers)
    best = answers[0]
    low = max(0, best.sentence_start - _AROUND)
    sentence_end = best.sentence_start + len(best.sentence)
    high = min(len(passage), max(best.end, sentence_end) + _AROUND)
    text = marked(passage, answers)[low:high]
    return Text.assemble("…" if low else "", text, "…" if high < len(passage) else "")


def marked(passage: str, answers: Sequence[Answer]) -> Text:
    """The passage, better answers painted over lesser ones."""
    # Printable: where rich drops a character, all places after it would be wrong.
    text = Text(printable(passage))
    for number, answer in reversed(list(enumerate(answers))):
        text.stylize(_STYLES[min(number, len(_STYLES) - 1)], answer.start, answer.end)
    return text


def remember(history: Path) -> Callable[[], None]:
    """Let the person recall earlier questions with the arrow keys; return what saves them."""
    try:
        import readline
    except ImportError:  # there is none on Windows
        return lambda: None
    with contextlib.suppress(
        OSError
    ):  # the first time, or a home that cannot be written: it works all the same
        history.parent.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(history)
    readline.set_history_length(1000)

    def save() -> None:
        with contextlib.suppress(OSError):
            readline.write_history_file(history)

    return save
