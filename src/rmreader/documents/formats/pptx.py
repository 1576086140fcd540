"""PowerPoint documents (.pptx), by the standard library: a slide is a page."""

from __future__ import annotations

import re

from rmreader.documents.formats.format import BinaryFormat, Unreadable
from rmreader.documents.formats.zipped import MAGIC, Archive, ignore, relations, walk_xml
from rmreader.documents.paragraphs import DocumentBuilder
from rmreader.documents.places import TextSpan
from rmreader.documents.tables import Table

_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main "
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main "
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships id"
_MOST_SLIDES = 5_000


def read_pptx(content: bytes, out: DocumentBuilder) -> None:
    """Write the paragraphs and tables of every slide; its title is the heading."""
    archive = Archive(content)
    slides = _slides(archive)
    if len(slides) > _MOST_SLIDES:
        raise Unreadable(f"it has more than {_MOST_SLIDES:,} slides")
    for number, part in enumerate(slides, start=1):
        out.page = number
        out.set_heading(1, "")
        walk = _SlideWalk(out)
        walk_xml(archive.read(part), walk.start, walk.end, walk.text)
        walk.finish()


def _slides(archive: Archive) -> list[str]:
    """The parts of the slides, in the order in which they are shown."""
    order: list[str] = []

    def add_slide(name: str, attributes: dict[str, str]) -> None:
        if name == f"{_SLIDE}sldId":
            order.append(attributes.get(_RELATION, ""))

    walk_xml(archive.read("ppt/presentation.xml"), add_slide, ignore, ignore)
    targets = relations(archive.read("ppt/_rels/presentation.xml.rels"))
    parts = [f"ppt/{targets[relation]}" for relation in order if relation in targets]
    return [part for part in parts if re.fullmatch(r"ppt/slides/[^/]+", part)]


class _SlideWalk:
    """Where the walk through a slide is."""

    def __init__(self, out: DocumentBuilder) -> None:
        self._out = out
        self._in_text = False
        self._is_title = False
        self._table: Table | None = None
        self._cells: list[TextSpan] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == f"{_SLIDE}ph":
            self._is_title = attributes.get("type", "") in ("title", "ctrTitle")
        match name.removeprefix(_DRAWING):
            case "t":
                self._in_text = True
            case "br":
                self._out.write(" ")
            case "tbl":
                self._out.end_line()
                self._table = Table(self._out)
            case "tr":
                self._cells = []

    def end(self, name: str) -> None:
        if name == f"{_SLIDE}sp":
            self._is_title = False
        match name.removeprefix(_DRAWING):
            case "t":
                self._in_text = False
            case "p" if self._table is not None:
                if self._out.current.size:
                    self._out.write(" ")
            case "p":
                self._out.end_line(1 if self._is_title else None)
            case "tc":
                self._cells.append(self._out.take_cell())
            case "tr" if self._table is not None:
                self._table.add(self._cells)
                self._out.write_outside("\n")
            case "tbl" if self._table is not None:
                self._table.end()
                self._table = None

    def text(self, text: str) -> None:
        if self._in_text:
            self._out.write(text)

    def finish(self) -> None:
        if self._table is not None:
            self._table.end()
        self._out.end_line()


FORMAT = BinaryFormat(
    name="a PowerPoint document (.pptx)",
    suffixes=(".pptx",),
    read=read_pptx,
    offsets="the paragraphs of the slides and rows of tables, one per line, a tab after a cell",
    magic=MAGIC,
    contains=b"ppt/",
)
