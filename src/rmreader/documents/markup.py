"""HTML and Markdown as paragraphs under headings, every character with its place in the original.

Both are read in one walk from left to right, in time linear in the length, whatever is nested or left open.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace

from rmreader.documents.places import Maker, Stretch

_NAMES = """
address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure
footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol option p pre section summary table
tbody td tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_NAMES.split())
_UNREAD = re.compile(r"(script|style|template|svg|noscript|iframe|object|textarea|select)\Z", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)(?>[^>\"'=]|=\s*\"[^\"]*\"|=\s*'[^']*'|[\"'=])*+>")
_BARE = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^>]*>")
_PIECE = re.compile(r"\s+|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?|&|[^\s&]+")
_TRAIL = " › "  # between a heading and the one below it


ROW = 300  # characters: a row of a table that has more is a way to lay out a page


class Paragraphs:
    """Paragraphs while a document is being walked through, under the headings that were met."""

    def __init__(self) -> None:
        self.made: list[Stretch] = []
        self.maker = Maker()
        self.headings: dict[int, str] = {}

    def end(self, level: int | None = None) -> None:
        """A paragraph ends here; with a ``level`` it was a heading of what follows, and is a paragraph too."""
        piece = self.maker.take()
        piece = piece.cut(0, len(piece.text))
        if not piece.text:
            return
        if level is not None:
            self.headings = {k: kept for k, kept in self.headings.items() if k < level}
            self.headings[level] = " ".join(piece.text.split())[:200]
        self.made.append(replace(piece, heading=_TRAIL.join(dict.fromkeys(self.headings.values()))))


def read_html(text: str) -> list[Stretch]:
    """The paragraphs of a page; its title is the heading above all others. A row of a table, or a term with what it
    means, is one paragraph, with a tab between two cells."""
    out, level, row = Paragraphs(), None, False
    for begin, end, closing, name in _tags(text):
        _spell(out.maker, text, begin, end)
        if name not in _BLOCKS:
            continue
        heading = 0 if name == "title" else int(name[1]) if re.fullmatch(r"h[1-6]", name) else None
        if name in ("tr", "table", "dl") or (name == "dt" and not closing):
            row = name in ("tr", "dt") and not closing
        elif row and heading is None and 0 < out.maker.size < ROW:
            if not out.maker.parts[-1].endswith("\t"):
                out.maker.add("\t", end, 0)
            continue
        out.end(level)
        level = None if closing else heading if heading is not None else level
    out.end(level)
    return out.made


def _tags(text: str) -> Iterator[tuple[int, int, bool, str]]:
    """Every stretch between tags with the tag after it: begin, end, whether it closes, its name; "" for none.

    Comments and what is no text for people are skipped. Where a quote in a tag is never closed, quotes are no longer
    believed: a tag then ends at the first >.
    """
    at, begin, last, pattern = 0, 0, text.rfind(">"), _TAG
    while 0 <= (at := text.find("<", at)) < last:
        if text.startswith("<!--", at):
            after, closing, name = _after(text, "-->", at + 4), False, ""
        elif text[at + 1] in "!?":
            after, closing, name = _after(text, ">", at), False, ""
        elif match := pattern.match(text, at) or _BARE.match(text, at):
            pattern = match.re
            after, closing, name = match.end(), bool(match[1]), match[2].lower()
            if not closing and _UNREAD.match(name) and not match[0].endswith("/>"):
                found = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, after)
                after = found.start() if found else len(text)
        else:
            at += 1
            continue
        yield begin, at, closing, name
        at = begin = after
    yield begin, len(text), False, ""


def _after(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return found + len(mark) if found >= 0 else len(text)


def _spell(maker: Maker, text: str, begin: int, end: int) -> None:
    """Text between tags: white space as one blank, references such as &amp; as what they mean."""
    for match in _PIECE.finditer(text, begin, end):
        piece = match[0]
        if piece.isspace():
            if maker.size and not maker.parts[-1].endswith((" ", "\t")):
                maker.add(" ", match.start(), len(piece))
        else:
            maker.add(html.unescape(piece) if piece[0] == "&" else piece, match.start(), len(piece))


_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:\s+|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})\s*\Z")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*\Z|[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+[ \t:-]*\Z")
_DEFINED = re.compile(
    r" {0,3}\[(?!\^)[^\]]{1,200}\]:[ \t]*\S+(?:[ \t]+[\"'(].*)?\s*\Z"
)  # an address; a footnote is text
_LEAD = re.compile(r"(?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?")
_INLINE = re.compile(
    r"\\(?P<literal>[!-/:-@\[-`{-~])|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)"
    r"|!?\[(?P<label>[^\[\]\n]{0,1000})\]"  # [label](address) or [label][name]
    r"(?:\([^()\n]{0,2000}(?:\([^()\n]{0,500}\)[^()\n]{0,500})?\)|\[[^\]\n]{0,200}\])"
    r"|<(?P<link>(?:https?:|mailto:)[^\s<>]{1,2000})>|</?[a-zA-Z][^<>\n]{0,2000}>|<!--[^\n<]{0,2000}?-->"
    r"|`+|\*+(?=\S)|(?<=\S)\*+|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)|~~|(?P<cell>\|)"
)


def read_markdown(text: str) -> list[Stretch]:
    """The paragraphs of a Markdown text: its marks left out, items and rows of tables as paragraphs, a tab between two
    cells, code as it is."""
    out, at, fence, table = Paragraphs(), _front_matter(text), "", False
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        found = _FENCE.match(line)
        if found and fence in ("", found[1]):
            out.end()
            fence = "" if fence else found[1]
        elif fence:
            _line(out.maker, line, at, plain=True)
        elif found := _HEADING.match(line):
            out.end()
            _line(out.maker, line[found.end() :].rstrip().rstrip("#"), at + found.end())
            out.end(len(found[1]))
        elif out.maker.size and (found := _UNDERLINE.match(line)):
            out.end(1 if found[1][0] == "=" else 2)
        elif not line.strip() or _RULE.match(line) or _DEFINED.match(line):
            out.end()
            table = "|" in line
        else:
            lead = _LEAD.match(line)
            skip = lead.end() if lead else 0
            if table or line[:skip].strip(" \t>") or line.startswith("|", skip):  # a row, or an item
                out.end()
            _line(out.maker, line[skip:], at + skip)
        at = end + 1
    out.end()
    return out.made


def _front_matter(text: str) -> int:
    """Where the text begins after settings between two lines of ---."""
    found = re.match(r"---[ \t]*\n(?:(?!---|\.\.\.)[^\n]*\n){0,200}(?:---|\.\.\.)[ \t]*(?:\n|\Z)", text)
    return found.end() if found else 0


def _line(maker: Maker, line: str, at: int, plain: bool = False) -> None:
    """One line, after what the paragraph already has; a ``plain`` one has no marks."""
    if maker.size:
        maker.add("\n", at - 1, 1)
    if plain:
        maker.add(line, at)
    else:
        _unmark(maker, line, at)


def _unmark(maker: Maker, text: str, at: int) -> None:
    """A text without its marks; a label may have marks of its own, but no label."""
    done = 0
    for match in _INLINE.finditer(text):
        maker.add(text[done : match.start()], at + done)
        done, kind = match.end(), match.lastgroup or ""
        here = at + match.start(kind) if kind else 0
        if kind == "label":
            _unmark(maker, match[kind], here)
        elif kind == "entity":
            maker.add(html.unescape(match[kind]), here, len(match[kind]))
        elif kind:
            maker.add("\t" if kind == "cell" else match[kind], here)
    maker.add(text[done:], at + done)
