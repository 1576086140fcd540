"""HTML pages, read in one walk: linear in the length, whatever is nested or left open."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from rmreader.documents.formats.format import TextFormat
from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.places import SpanBuilder, TextSpan
from rmreader.documents.tables import EMPTY, Table

_NAMES = """
address article aside blockquote body br caption center dd details dialog div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol
option p pre section summary table tbody td tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_NAMES.split())
_HIDDEN = frozenset(
    ["script", "style", "template", "svg", "noscript", "iframe", "object", "textarea", "select"]
)
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)(?>[^>\"'=]|=\s*+\"[^\"]*\"|=\s*+'[^']*'|[\"'=])*+>")
_TAG_WITHOUT_QUOTES = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)[^>]*+>")
_PIECE = re.compile(
    r"\s+|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?|&|[^\s&]+"
)
_CELLS_WIDE = re.compile(r"\bcolspan\s{0,9}=\s{0,9}[\"']?(\d{1,2})\b", re.IGNORECASE)
_ROWS_HIGH = re.compile(r"\browspan\s{0,9}=\s{0,9}[\"']?(\d{1,2})\b", re.IGNORECASE)
_LONGEST_CELL = 300  # characters: a table with a longer cell is a way to lay out a page
_LONGEST_ROW = 2000
_LONGEST_REPEAT = 60  # characters of a cell that is repeated in the rows below it


class _Tag(NamedTuple):
    """A tag, with the text before it; a name of "" is a comment, or the end of the page."""

    text_begin: int
    begin: int
    end: int
    name: str
    is_closing: bool


def read_html(text: str, out: ParagraphBuilder, offset: int = 0) -> None:
    """Add the paragraphs of a page; its title is the heading above all others.

    A row of a table is one paragraph with its column names, a term with its meaning is another.
    ``offset`` is where the page begins in the original.
    """
    walk = _PageWalk(text, out, offset)
    for tag in _tags(text):
        walk.add_text(tag.text_begin, tag.begin)
        if tag.name in _BLOCKS:
            walk.add_tag(tag)
    walk.finish()


class _PageWalk:
    """Where the walk through a page is: under which heading, in which table, row and cell."""

    def __init__(self, text: str, out: ParagraphBuilder, offset: int) -> None:
        self._text = text
        self._out = out
        self._offset = offset
        self._level: int | None = None
        self._table: Table | None = None
        self._cells: list[TextSpan] | None = None
        self._row_size = 0
        self._in_head = False
        self._is_header = True
        self._in_cell = False
        self._columns = 1
        self._rows = 1
        self._repeated: dict[int, tuple[int, TextSpan]] = {}

    def add_text(self, begin: int, end: int) -> None:
        add_characters(self._out.current, self._text, begin, end, self._offset)

    def add_tag(self, tag: _Tag) -> None:
        match tag.name:
            case "table" | "dl":
                self._end_table()
                if tag.name == "table" and not tag.is_closing:
                    self._table = Table(self._out)
            case "thead" | "tbody" | "tfoot":  # parts of one table
                self._end_row()
                self._in_head = tag.name == "thead" and not tag.is_closing
            case "tr":
                self._end_row()
                if not tag.is_closing:
                    self._begin_row()
            case "dt" if not tag.is_closing:
                self._end_row()
                self._begin_row()
                self._in_cell = True
            case "td" | "th" | "dt" | "dd" if self._cells is not None:
                self._end_cell()
                if not tag.is_closing:
                    self._begin_cell(tag)
            case _:
                self._add_block(tag)

    def finish(self) -> None:
        self._end_table()
        self._out.end(self._level)

    def _add_block(self, tag: _Tag) -> None:
        """A tag that parts paragraphs, or lines of a cell."""
        level = _heading_level(tag.name)
        if self._cells is not None and level is None and not self._is_layout():
            if self._out.current.size and not self._out.current.ends_with(" "):
                self._out.current.add(" ", self._offset + tag.end, 0)
            return
        self._give_up_row()
        self._out.end(self._level)
        if tag.is_closing:
            self._level = None
        elif level is not None:
            self._level = level

    def _begin_row(self) -> None:
        self._cells = []
        self._in_cell = False
        self._row_size = 0
        self._is_header = True

    def _begin_cell(self, tag: _Tag) -> None:
        source = self._text[tag.begin : min(tag.end, tag.begin + 500)]
        columns = _CELLS_WIDE.search(source)
        rows = _ROWS_HIGH.search(source)
        self._columns = max(1, int(columns[1])) if columns else 1
        self._rows = max(1, int(rows[1])) if rows else 1
        self._is_header = self._is_header and (tag.name == "th" or self._in_head)
        self._in_cell = True

    def _end_cell(self) -> None:
        """Take the text since the last cell; a cell may be wide, or high."""
        if self._cells is None:
            return
        if self._is_layout():
            self._give_up_row()
            self._out.end(self._level)
            return
        span = self._out.current.take()
        span = span.cut(0, len(span.text))
        if not span.text and not self._in_cell:
            return
        self._in_cell = False
        self._repeat_from_above()
        if self._rows > 1 and len(span.text) <= _LONGEST_REPEAT:
            self._repeated[len(self._cells)] = (self._rows - 1, span)
        self._cells.append(span)
        self._cells += [EMPTY] * (self._columns - 1)
        self._row_size += len(span.text)
        self._columns = 1
        self._rows = 1

    def _repeat_from_above(self) -> None:
        """Fill the columns that a high cell of an earlier row reaches down to."""
        assert self._cells is not None
        while len(self._cells) in self._repeated:
            column = len(self._cells)
            left, span = self._repeated.pop(column)
            self._cells.append(span)
            if left > 1:
                self._repeated[column] = (left - 1, span)
            self._row_size += len(span.text)

    def _end_row(self) -> None:
        if self._cells is None:
            self._out.end(self._level)
            return
        self._end_cell()
        if self._cells:
            self._repeat_from_above()
            table = self._table or Table(self._out)
            table.add(self._cells, self._is_header)
            if self._table is None:
                table.end()
        self._cells = None

    def _end_table(self) -> None:
        self._end_row()
        if self._table is not None:
            self._table.end()
        self._table = None
        self._repeated = {}

    def _is_layout(self) -> bool:
        size = self._out.current.size
        return size > _LONGEST_CELL or self._row_size + size > _LONGEST_ROW

    def _give_up_row(self) -> None:
        """The cells of this row are paragraphs: the table lays out a page."""
        cells = self._cells or []
        self._cells = None
        if self._table is not None:
            self._table.flush()
        for cell in cells:
            if cell.text:
                self._out.add(cell)


def _heading_level(name: str) -> int | None:
    if name == "title":
        return 0
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        return int(name[1])
    return None


def _tags(text: str) -> Iterator[_Tag]:
    """Every tag with the text before it; comments and what people do not see are left out.

    If a quoted attribute never closes, from there on a tag ends at the first >.
    """
    at = 0
    begin = 0
    last = text.rfind(">")
    pattern = _TAG
    while True:
        at = text.find("<", at)
        if not 0 <= at < last:
            break
        name = ""
        is_closing = False
        if text.startswith("<!--", at):
            end = _after(text, "-->", at + 4)
        elif text[at + 1] in "!?":
            end = _after(text, ">", at)
        else:
            match = pattern.match(text, at) or _TAG_WITHOUT_QUOTES.match(text, at)
            if match is None:
                at += 1
                continue
            pattern = match.re
            is_closing = bool(match[1])
            name = match[2][:20].lower()
            end = match.end()
            if name in _HIDDEN and not is_closing and text[end - 2] != "/":
                end = _end_of_hidden(text, name, end)
        yield _Tag(begin, at, end, name, is_closing)
        at = end
        begin = end
    yield _Tag(begin, len(text), len(text), "", False)


def _end_of_hidden(text: str, name: str, at: int) -> int:
    closing = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, at)
    return closing.start() if closing else len(text)


def _after(text: str, mark: str, at: int) -> int:
    place = text.find(mark, at)
    return place + len(mark) if place >= 0 else len(text)


def add_characters(span: SpanBuilder, text: str, begin: int, end: int, offset: int = 0) -> None:
    """Add text between tags: space as one blank, references such as &amp; as they are read."""
    for match in _PIECE.finditer(text, begin, end):
        piece = match[0]
        place = offset + match.start()
        if piece.isspace():
            if span.size and not span.ends_with(" \t"):
                span.add(" ", place, len(piece))
        elif piece[0] == "&":
            span.add(html.unescape(piece), place, len(piece))
        else:
            span.add(piece, place)


FORMAT = TextFormat("an HTML page", (".html", ".htm", ".xhtml"), read_html, declares_charset=True)
