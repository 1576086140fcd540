"""Rows of a table as a reader understands them: "Part: Pump C-310, Price: 31 EUR, Stock: 4."

Each cell keeps its place in the original. The column names have the place of the header cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.places import LABEL, SpanBuilder, TextSpan

_LOOK_AHEAD = 5  # rows that decide whether the first one names the columns
_LONGEST_NAME = 60  # characters of a column name
_BETWEEN_CELLS = ", "  # `base` answers 29 of 32 questions; with ";" 23: benchmarks/tables.py
_NUMBER = re.compile(r"[^\w\s]{0,3}\s?\d")
_YEAR = re.compile(r"(?:FY ?)?[12]\d{3}")
EMPTY = TextSpan("", ())


class Header(Enum):
    """Whether the first row of a table names its columns."""

    YES = "yes"
    LIKELY = "likely"
    """As in a CSV file: unless the row looks like the others."""
    PERHAPS = "perhaps"
    """As in a Word table: a table of two columns often has none."""


class Table:
    """Writes the rows of one table as paragraphs, each with its column names."""

    def __init__(self, out: ParagraphBuilder, header: Header = Header.PERHAPS) -> None:
        self._out = out
        self._header = header
        self._waiting: list[Sequence[TextSpan]] = []
        self._names: Sequence[TextSpan] = ()
        self._is_decided = False

    def add(self, cells: Sequence[TextSpan], is_header: bool = False) -> None:
        """Add a row; empty cells hold the place of their column."""
        filled = sum(1 for cell in cells if cell.text)
        if not filled:
            return
        if filled == 1 and not self._is_decided and not self._waiting:  # a title above the table
            self._write(cells)
            return
        if is_header and not self._is_decided and not self._waiting:
            self._header = Header.YES
        if self._is_decided:
            self._write(cells)
            return
        self._waiting.append(cells)
        if len(self._waiting) >= _LOOK_AHEAD:
            self.flush()

    def end(self) -> None:
        """Write what is left; the next row begins another table."""
        self.flush()
        self._names = ()
        self._is_decided = False

    def flush(self) -> None:
        """Write the rows that still wait for a decision on the first one."""
        rows = self._waiting
        self._waiting = []
        if not rows:
            return
        self._is_decided = True
        if len(rows) > 1 and self._has_header(rows[0], rows[1:]):
            self._names = rows[0]
            rows = rows[1:]
        for cells in rows:
            self._write(cells)

    def _has_header(self, first: Sequence[TextSpan], rest: Sequence[Sequence[TextSpan]]) -> bool:
        names = [cell.text for cell in first if cell.text]
        if len(names) < 2:
            return False
        if self._header is Header.YES:
            return True
        if len(set(names)) < len(names) or max(map(len, names)) > _LONGEST_NAME:
            return False
        numbers = [column for column in range(len(first)) if _is_number_column(rest, column)]
        if any(_is_amount(first[column].text) for column in numbers):
            return False
        return self._header is Header.LIKELY or len(first) > 2 or bool(numbers)

    def _write(self, cells: Sequence[TextSpan]) -> None:
        builder = SpanBuilder()
        end = 0
        for column, cell in enumerate(cells):
            if not cell.text:
                continue
            first, last = cell.span(0, len(cell.text))
            if builder.size:
                builder.add(_BETWEEN_CELLS if self._names else "\t", end, 0)
            if column < len(self._names) and self._names[column].text:
                _add_name(builder, self._names[column], first)
            builder.add_span(cell)
            end = last
        if self._names and not builder.ends_with(".!?"):
            builder.add(".", end, 0)
        self._out.add(builder.take())


def _add_name(builder: SpanBuilder, name: TextSpan, cell: int) -> None:
    """Add a column name, which has its place in the header, before a cell."""
    text = " ".join(name.text.split())[:_LONGEST_NAME].rstrip(": ")
    if text:
        first, last = name.span(0, len(name.text))
        builder.add(text, first, last - first)
        builder.add(LABEL, cell, 0)


def _is_number_column(rows: Sequence[Sequence[TextSpan]], column: int) -> bool:
    texts = [row[column].text for row in rows if column < len(row)]
    return 2 * sum(1 for text in texts if _NUMBER.match(text)) > len(texts)


def _is_amount(text: str) -> bool:
    """Whether a text is a number that is no year: a year may well name a column."""
    return bool(_NUMBER.match(text)) and not _YEAR.fullmatch(text)
