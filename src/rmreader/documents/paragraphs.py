"""The paragraphs of a document, under their headings, while it is read and afterwards.

A document may have a million tiny paragraphs, so they are kept in a few arrays. A ``TextSpan`` is
made of one when it is asked for.
"""

from __future__ import annotations

import io
import re
from array import array
from dataclasses import dataclass, field

from rmreader.documents.places import LazySequence, Runs, SpanBuilder, TextSpan

TRAIL = " › "  # between a heading and the one below it
_LONGEST_HEADING = 100  # characters of one heading
_LONGEST_TRAIL = 250
_BLANK = re.compile(r"\n\s*\n")
_LONG_LINE = 300  # characters of a line that is a paragraph by itself


def _numbers() -> array[int]:
    return array("q")


def heading_of(text: str) -> str:
    """A paragraph as a heading is told."""
    return " ".join(text[: 2 * _LONGEST_HEADING].split())[:_LONGEST_HEADING]


@dataclass
class Paragraphs(LazySequence[TextSpan]):
    """Paragraphs in order; ``paragraphs[k]`` makes a span."""

    text: str = ""
    """All texts, one after another."""
    ends: array[int] = field(default_factory=_numbers)
    """Where each paragraph ends in ``text``."""
    runs: array[int] = field(default_factory=_numbers)
    """The runs of all, flat, counted from the beginning of their paragraph."""
    run_ends: array[int] = field(default_factory=_numbers)
    """Where the runs of each paragraph end in ``runs``."""
    section_of: array[int] = field(default_factory=_numbers)
    """The section that each paragraph is in."""
    sections: list[tuple[int | None, str]] = field(default_factory=list)
    """Page and heading of each section."""

    def __len__(self) -> int:
        return len(self.ends)

    def at(self, number: int) -> TextSpan:
        """The paragraph of this number."""
        begin = self.ends[number - 1] if number else 0
        first_run = self.run_ends[number - 1] if number else 0
        runs = Runs.from_numbers(self.runs[first_run : self.run_ends[number]])
        page, heading = self.sections[self.section_of[number]]
        return TextSpan(self.text[begin : self.ends[number]], runs, page, heading)


class ParagraphBuilder:
    """Collects the paragraphs of a document while it is walked through."""

    def __init__(self) -> None:
        self.current = SpanBuilder()
        """The paragraph that is being read."""
        self.page: int | None = None
        self.has_marks = False
        """Whether characters of a plain text were left out."""
        self._headings: dict[int, str] = {}
        self._heading = ""
        self._texts = io.StringIO()
        self._size = 0
        self._paragraphs = Paragraphs()

    def end(self, level: int | None = None) -> None:
        """End the current paragraph; with a ``level`` it is also the heading of what follows."""
        span = self.current.take()
        span = span.cut(0, len(span.text))
        if not span.text:
            return
        if level is not None:
            self.set_heading(level, span.text)
        self.add(span)

    def set_heading(self, level: int, text: str) -> None:
        """What follows is under this heading, and the ones of lower levels."""
        self._headings = {k: name for k, name in self._headings.items() if k < level}
        self._headings[level] = heading_of(text)
        different = dict.fromkeys(self._headings.values())
        self._heading = TRAIL.join(different)[:_LONGEST_TRAIL].strip(TRAIL)

    def add(self, span: TextSpan) -> None:
        """Add a whole paragraph, which has text."""
        made = self._paragraphs
        runs = span.runs if isinstance(span.runs, Runs) else Runs(span.runs)
        self._texts.write(span.text)
        self._size += len(span.text)
        made.ends.append(self._size)
        made.runs.extend(runs.numbers)
        made.run_ends.append(len(made.runs))
        section = (self.page, self._heading)
        if not made.sections or made.sections[-1] != section:
            made.sections.append(section)
        made.section_of.append(len(made.sections) - 1)

    def add_text(self, text: str, offset: int = 0) -> None:
        """Add the paragraphs of a plain text that begins at ``offset`` in the original.

        Blank lines part them. Where lines are as long as paragraphs, every line is one.
        """
        begin = 0
        for blank in _BLANK.finditer(text):
            self._add_block(text, begin, blank.start(), offset)
            begin = blank.end()
        self._add_block(text, begin, len(text), offset)

    def _add_block(self, text: str, begin: int, end: int, offset: int) -> None:
        block = text[begin:end]
        lines = block.split("\n")
        parts = lines if max(map(len, lines)) > _LONG_LINE else [block]
        for part in parts:
            bare = part.strip()
            if bare:
                indent = len(part) - len(part.lstrip())
                self.add(TextSpan(bare, Runs([(0, offset + begin + indent, len(bare))])))
            begin += len(part) + 1

    def finish(self) -> Paragraphs:
        """All that was added."""
        self.end()
        self._paragraphs.text = self._texts.getvalue()
        return self._paragraphs


class DocumentBuilder(ParagraphBuilder):
    """The same for a packed or binary file: its text is the original that places count in."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._original = io.StringIO()
        self._most = most
        self.place = 0
        """How much of the original there is."""
        self.boxes: array[float] = array("f")
        """Left, bottom, right and top of each character, where the file says."""

    @property
    def original(self) -> str:
        """The text so far."""
        return self._original.getvalue()

    def write(self, text: str) -> None:
        """Write a part of the current paragraph."""
        self.current.add(text, self.place)
        self.write_outside(text)

    def write_outside(self, text: str) -> None:
        """Write what is in the original only, such as a line end between two paragraphs."""
        self.place += len(text)
        if self.place > self._most:
            raise TooMuchText
        self._original.write(text)

    def end_line(self, level: int | None = None) -> None:
        """End the current paragraph, and its line in the original."""
        if self.current.size:
            self.end(level)
            self.write_outside("\n")

    def take_cell(self) -> TextSpan:
        """What was written since the last cell, as a cell; a tab follows it in the original."""
        span = self.current.take()
        self.write_outside("\t")
        return span.cut(0, len(span.text))


class TooMuchText(ValueError):
    """A document has more text than it may have."""
