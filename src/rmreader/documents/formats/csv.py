"""CSV and TSV files: every row with its column names, every cell with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rmreader.documents.formats.format import TextFormat
from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.places import Runs, SpanBuilder, TextSpan
from rmreader.documents.tables import EMPTY, Header, Table

_DELIMITERS = ",;\t|"
_LINES_TO_SNIFF = 20
_QUOTED = re.compile(r'[ \t]*+"((?:[^"]++|"")*+)"')


def read_csv(text: str, out: ParagraphBuilder) -> None:
    """Add the rows; the first line names the columns, unless it looks like the others."""
    table = Table(out, Header.LIKELY)
    for cells in _rows(text, _delimiter(text)):
        table.add(cells)
    table.end()


def _delimiter(text: str) -> str:
    """What parts the cells: the mark that most of the first lines have, equally often."""
    lines = [line for line in text[:20_000].split("\n")[:_LINES_TO_SNIFF] if line.strip()]
    best = ","
    best_score = 0
    for delimiter in _DELIMITERS:
        counts = [_without_quoted(line).count(delimiter) for line in lines]
        usual = max(set(counts), key=counts.count, default=0)
        score = counts.count(usual) if usual else 0
        if score > best_score:
            best = delimiter
            best_score = score
    return best


def _without_quoted(line: str) -> str:
    return "".join(line.split('"')[::2])


def _rows(text: str, delimiter: str) -> Iterator[list[TextSpan]]:
    """Every row as cells. From a quote that never closes on, quotes are characters like others."""
    plain = re.compile(rf"[^{re.escape(delimiter)}\n]*+")
    at = 0
    cells: list[TextSpan] = []
    has_quotes = True
    while at < len(text):
        quoted = _QUOTED.match(text, at) if has_quotes else None
        if quoted:
            cells.append(_quoted_cell(text, quoted.start(1), quoted.end(1)))
            at = quoted.end()
            rest = plain.match(text, at)
            at = rest.end() if rest else at
        else:
            match = plain.match(text, at)
            end = match.end() if match else at
            if has_quotes and text[at:end].lstrip(" \t").startswith('"'):
                has_quotes = False
            cells.append(_cell(text, at, end))
            at = end
        if at >= len(text) or text[at] == "\n":
            yield cells
            cells = []
        at += 1
    if cells:
        yield cells


def _cell(text: str, begin: int, end: int) -> TextSpan:
    words = text[begin:end]
    bare = words.strip()
    if not bare:
        return EMPTY
    begin += len(words) - len(words.lstrip())
    return TextSpan(bare, Runs([(0, begin, len(bare))]))


def _quoted_cell(text: str, begin: int, end: int) -> TextSpan:
    """The cell between two quotes, in which two quotes are one."""
    builder = SpanBuilder()
    at = begin
    while at < end:
        quotes = text.find('""', at, end)
        stop = end if quotes < 0 else quotes
        builder.add(text[at:stop], at)
        if stop < end:
            builder.add('"', stop, 2)
        at = stop + 2
    span = builder.take()
    return span.cut(0, len(span.text))


FORMAT = TextFormat("a CSV table", (".csv", ".tsv", ".tab"), read_csv)
