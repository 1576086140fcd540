"""Word documents (.docx), by the standard library."""

from __future__ import annotations

from rmreader.documents.formats.format import BinaryFormat
from rmreader.documents.formats.zipped import MAGIC, Archive, walk_xml
from rmreader.documents.paragraphs import DocumentBuilder
from rmreader.documents.places import TextSpan
from rmreader.documents.tables import EMPTY, Table

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_LONGEST_CELL = 300  # characters: a table with a longer cell is a way to lay out a page
_WIDEST_CELL = 60  # columns that one cell may span


def read_docx(content: bytes, out: DocumentBuilder) -> None:
    """Write one line per paragraph or row of a table, under the headings that styles make."""
    walk = _WordWalk(out)
    xml = Archive(content).read("word/document.xml")
    walk_xml(xml, walk.start, walk.end, walk.text)
    walk.finish()


class _WordWalk:
    """Where the walk through a document's XML is."""

    def __init__(self, out: DocumentBuilder) -> None:
        self._out = out
        self._level: int | None = None
        self._in_text = False
        self._skipped = 0
        self._table: Table | None = None
        self._cells: list[TextSpan] | None = None
        self._columns = 1
        self._is_header = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" Fallback"):  # the same once more, for older programs
            self._skipped += 1
        match name.removeprefix(_WORD):
            case "t":
                self._in_text = True
            case "p":
                self._end_paragraph()
            case "pStyle":
                self._level = _heading_level(attributes.get(f"{_WORD}val", ""))
            case "tab":
                self._write_mark("\t")
            case "br" | "cr":
                self._write_mark("\n")
            case "noBreakHyphen":
                self._write("-")
            case "tbl":
                self._end_table()
                self._table = Table(self._out)
            case "tr":
                self._end_row()
                self._cells = []
                self._is_header = False
            case "tblHeader":
                self._is_header = True
            case "tc":
                self._columns = 1
            case "gridSpan":
                self._columns = _small_number(attributes.get(f"{_WORD}val", ""))

    def end(self, name: str) -> None:
        if name.endswith(" Fallback"):
            self._skipped -= 1
        match name.removeprefix(_WORD):
            case "t":
                self._in_text = False
            case "p":
                self._end_paragraph()
            case "tc":
                self._end_cell()
            case "tr":
                self._end_row()
            case "tbl":
                self._end_table()

    def text(self, text: str) -> None:
        if self._in_text:
            self._write(text)

    def finish(self) -> None:
        self._end_table()

    def _write(self, text: str) -> None:
        if not self._skipped:
            self._out.write(text)

    def _write_mark(self, mark: str) -> None:
        if self._out.current.size:
            self._write(mark)

    def _end_paragraph(self) -> None:
        """End a line; within a cell the lines are parted by a blank, unless it lays out a page."""
        size = self._out.current.size
        if self._cells is not None and self._level is None and size <= _LONGEST_CELL:
            if size and not self._out.current.ends_with(" "):
                self._write(" ")
            return
        self._give_up_row()
        self._out.end_line(self._level)
        self._level = None

    def _end_cell(self) -> None:
        if self._cells is None:
            return
        self._cells.append(self._out.take_cell())
        self._cells += [EMPTY] * (self._columns - 1)

    def _end_row(self) -> None:
        if self._cells is None:
            self._out.end_line(self._level)
            return
        table = self._table or Table(self._out)
        table.add(self._cells, self._is_header)
        if self._table is None:
            table.end()
        self._cells = None
        self._out.write_outside("\n")
        self._out.end_line()

    def _end_table(self) -> None:
        self._end_row()
        if self._table is not None:
            self._table.end()
        self._table = None

    def _give_up_row(self) -> None:
        """The cells of this row are paragraphs: the table lays out a page."""
        if self._table is not None:
            self._table.flush()
        for cell in self._cells or []:
            if cell.text:
                self._out.add(cell)
        self._cells = None


def _heading_level(style: str) -> int | None:
    style = style.lower().replace(" ", "")
    if style == "title":
        return 0
    number = style.removeprefix("heading")
    return int(number) if len(number) == 1 and number in "123456789" else None


def _small_number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 1
    return min(max(1, number), _WIDEST_CELL)


FORMAT = BinaryFormat(
    name="a Word document (.docx)",
    suffixes=(".docx",),
    read=read_docx,
    offsets="the document's paragraphs and rows of tables, one per line, a tab after a cell",
    magic=MAGIC,
    contains=b"word/",
)
