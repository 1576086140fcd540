"""Markdown: its marks left out, items and rows as paragraphs, code as it is. One line at a time."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from rmreader.documents.formats.format import TextFormat
from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.places import SpanBuilder, TextSpan
from rmreader.documents.tables import Header, Table

_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:\s+|$)")
_UNDERLINE = re.compile(r" {0,3}(=++|-{2,}+)\s*+\Z")
_ADDRESS = re.compile(  # of a link, under a name; a footnote is text
    r" {0,3}\[(?!\^)[^\]]{1,200}\]:[ \t]*+\S++(?:[ \t]++[\"'(].*+)?\s*+\Z"
)
_LEAD = re.compile(  # of a quote or an item
    r"(?:[ \t]*+>)*+[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++(?:\[[ xX]\][ \t]++)?)?"
)
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?:(?!---|\.\.\.)[^\n]*\n){0,200}(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_CELL_END = re.compile(r"\\.|\|")
_LITERAL = r"\\(?P<literal>[!-/:-@\[-`{-~])"
_ENTITY = r"(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)"
_LABEL = r"!?\[(?P<label>[^\[\]\n]{0,1000})\]"
_TARGET = r"\([^()\n]{0,2000}(?:\([^()\n]{0,500}\)[^()\n]{0,500})?\)"
_NAME = r"\[[^\]\n]{0,200}\]"
_BADGE = rf"\[!\[[^\[\]\n]{{0,1000}}\](?:{_TARGET}|{_NAME})\](?:{_TARGET}|{_NAME})"
_LINK = r"<(?P<link>(?:https?:|mailto:)[^\s<>]{1,2000})>"
_TAG = r"</?[a-zA-Z][^<>\n]{0,2000}>"
_COMMENT = r"<!--[^\n<]{0,2000}?-->"
_CODE = r"(?P<ticks>`++)(?P<code>[^`\n]{1,2000})(?P=ticks)(?!`)|`+"  # nothing in code is a mark
_STRUCK = r"~~"
_STARS = r"(?P<stars>\*+)"
_BARS = r"(?P<bars>_+)"
_INLINE = re.compile(
    "|".join(
        (
            _LITERAL,
            _CODE,
            _ENTITY,
            _BADGE,  # a picture that is a link says nothing of its own
            f"{_LABEL}(?:{_TARGET}|{_NAME})",
            _LINK,
            _TAG,
            _COMMENT,
            _STRUCK,
            _STARS,
            _BARS,
        )
    )
)


def read_markdown(text: str, out: ParagraphBuilder) -> None:
    """Add the paragraphs of a Markdown text."""
    walk = _MarkdownWalk(out)
    lines = _lines(text)
    line, at = next(lines)
    for next_line, next_at in lines:
        walk.add(line, at, next_line)
        line, at = next_line, next_at
    walk.add(line, at, "")
    walk.end_table()


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Every line and its place, after settings between two lines of ---."""
    front = _FRONT_MATTER.match(text)
    at = front.end() if front else 0
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end], at
        at = end + 1


class _MarkdownWalk:
    """Where the walk is: in which fence or table."""

    def __init__(self, out: ParagraphBuilder) -> None:
        self._out = out
        self._fence = ""
        self._table: Table | None = None

    def add(self, line: str, at: int, next_line: str) -> None:
        fence = _FENCE.match(line)
        if fence and self._fence in ("", fence[1]):
            self.end_table()
            self._fence = "" if self._fence else fence[1]
        elif self._fence:
            self._begin_line(at)
            self._out.current.add(line, at)
        elif self._table is not None and "|" in line:
            if not _is_delimiter(line):
                self._table.add(_cells(line, at))
        elif "|" in line and _is_delimiter(next_line):
            self.end_table()
            self._table = Table(self._out, Header.YES)
            self._table.add(_cells(line, at))
        else:
            self._add_text(line, at)

    def _add_text(self, line: str, at: int) -> None:
        """A line outside of fences and tables."""
        self._end_rows()
        heading = _HEADING.match(line)
        underline = _UNDERLINE.match(line) if self._out.current.size else None
        if heading:
            self._out.end()
            words = line[heading.end() :].rstrip().rstrip("#")
            _add_inline(self._out.current, words, at + heading.end())
            self._out.end(len(heading[1]))
        elif underline:
            self._out.end(1 if underline[1][0] == "=" else 2)
        elif not line.strip() or _is_rule(line) or _is_delimiter(line) or _ADDRESS.match(line):
            self._out.end()
        else:
            self._add_words(line, at)

    def _add_words(self, line: str, at: int) -> None:
        lead = _LEAD.match(line)
        skip = lead.end() if lead else 0
        if line.startswith("|", skip):  # a row of a table that names no columns
            self._out.end()
            table = Table(self._out)
            table.add(_cells(line[skip:], at + skip))
            table.end()
            return
        if line[:skip].strip(" \t>"):  # an item
            self._out.end()
        self._begin_line(at)
        _add_inline(self._out.current, line[skip:], at + skip)

    def _begin_line(self, at: int) -> None:
        if self._out.current.size:
            self._out.current.add("\n", at - 1)

    def _end_rows(self) -> None:
        if self._table is not None:
            self._table.end()
            self._table = None

    def end_table(self) -> None:
        self._end_rows()
        self._out.end()


def _is_rule(line: str) -> bool:
    """Whether a line is ---, * * * or the like."""
    bare = line.replace(" ", "").replace("\t", "")
    return len(bare) > 2 and bare[0] in "-*_" and not bare.strip(bare[0])


def _is_delimiter(line: str) -> bool:
    """Whether a line is |---|:--:|, as under the header of a table."""
    return "|" in line and "-" in line and not line.strip("|:- \t")


def _cells(line: str, at: int) -> list[TextSpan]:
    """The cells of a row: what bars part, without a bar at either end."""
    bare = line.strip()
    ends = [match.start() for match in _CELL_END.finditer(line) if match[0] == "|"]
    if bare.endswith("|") and ends:
        line = line[: ends[-1]]
        ends.pop()
    begin = len(line) - len(line.lstrip()) + 1 if bare.startswith("|") else 0
    cells = []
    for end in [*ends, len(line)]:
        if end < begin:
            continue
        builder = SpanBuilder()
        _add_inline(builder, line[begin:end], at + begin)
        span = builder.take()
        cells.append(span.cut(0, len(span.text)))
        begin = end + 1
    return cells


def _add_inline(span: SpanBuilder, text: str, at: int) -> None:
    """Add text without its marks; a label may have marks of its own, but no label."""
    done = 0
    for match in _INLINE.finditer(text):
        span.add(text[done : match.start()], at + done)
        done = match.end()
        kind = match.lastgroup
        if kind is None:
            continue
        place = at + match.start(kind)
        if kind == "label":
            _add_inline(span, match[kind], place)
        elif kind == "entity":
            span.add(html.unescape(match[kind]), place, len(match[kind]))
        elif kind in ("literal", "link", "code") or not _is_mark(text, match):
            span.add(match[kind], place)
    span.add(text[done:], at + done)


def _is_mark(text: str, match: re.Match[str]) -> bool:
    """Whether a run of * or _ is emphasis: at the edge of a word; for _ not within one."""
    before = text[match.start() - 1 : match.start()] if match.start() else ""
    after = text[match.end() : match.end() + 1]
    if match.lastgroup == "stars":
        return bool(before.strip() or after.strip())
    opens = bool(after.strip()) and not _is_word(before)
    closes = bool(before.strip()) and not _is_word(after)
    return opens or closes


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


FORMAT = TextFormat("a Markdown text", (".md", ".markdown", ".mkd"), read_markdown)
