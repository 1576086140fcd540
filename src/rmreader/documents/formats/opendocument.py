"""OpenDocument texts, tables and slides (.odt, .ods, .odp), by the standard library."""

from __future__ import annotations

from rmreader.documents.formats.format import BinaryFormat
from rmreader.documents.formats.zipped import MAGIC, Archive, walk_xml
from rmreader.documents.paragraphs import DocumentBuilder
from rmreader.documents.places import TextSpan
from rmreader.documents.tables import EMPTY, Table

_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0 "
_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0 "
_SKIPPED = {f"{_TEXT}tracked-changes", f"{_TEXT}note-citation"}
_MOST_BLANKS = 20  # that one mark stands for
_MOST_COLUMNS = 300


def read_opendocument(content: bytes, out: DocumentBuilder) -> None:
    """Write one line per paragraph or row of a table, under the headings."""
    walk = _OpenDocumentWalk(out)
    walk_xml(Archive(content).read("content.xml"), walk.start, walk.end, walk.text)
    walk.finish()


class _OpenDocumentWalk:
    """Where the walk through a document's XML is."""

    def __init__(self, out: DocumentBuilder) -> None:
        self._out = out
        self._level: int | None = None
        self._paragraphs = 0
        self._skipped = 0
        self._table: Table | None = None
        self._cells: list[TextSpan] | None = None
        self._columns = 1

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _SKIPPED:
            self._skipped += 1
        elif name.startswith(_TEXT):
            self._start_text(name.removeprefix(_TEXT), attributes)
        elif name.startswith(_TABLE):
            self._start_table(name.removeprefix(_TABLE), attributes)

    def _start_text(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "p" | "h":
                if self._cells is None:
                    self._out.end_line(self._level)
                self._paragraphs += 1
                level = attributes.get(f"{_TEXT}outline-level", "1")
                self._level = _number(level, 9) if name == "h" else None
            case "tab" | "line-break":
                self.text("\t" if name == "tab" else "\n")
            case "s":
                self.text(" " * _number(attributes.get(f"{_TEXT}c", ""), _MOST_BLANKS))

    def _start_table(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "table":
                self._end_table()
                self._table = Table(self._out)
            case "table-row":
                self._cells = []
            case "table-cell" | "covered-table-cell":
                repeated = attributes.get(f"{_TABLE}number-columns-repeated", "")
                self._columns = _number(repeated, _MOST_COLUMNS)

    def end(self, name: str) -> None:
        if name in _SKIPPED:
            self._skipped -= 1
        match name:
            case _ if name in (f"{_TEXT}p", f"{_TEXT}h"):
                self._paragraphs -= 1
                self._end_paragraph()
            case _ if name in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                self._end_cell()
            case _ if name == f"{_TABLE}table-row":
                self._end_row()
            case _ if name == f"{_TABLE}table":
                self._end_table()

    def text(self, text: str) -> None:
        if self._paragraphs and not self._skipped:
            self._out.write(text)

    def finish(self) -> None:
        self._end_table()

    def _end_paragraph(self) -> None:
        if self._cells is None:
            self._out.end_line(self._level)
            self._level = None
        elif self._out.current.size:
            self._out.write(" ")

    def _end_cell(self) -> None:
        """A repeated cell is written once; where it is empty, it holds the place of columns."""
        if self._cells is None:
            return
        if self._out.current.size:
            self._cells.append(self._out.take_cell())
        elif len(self._cells) < _MOST_COLUMNS:
            self._cells += [EMPTY] * self._columns

    def _end_row(self) -> None:
        if self._cells is not None and any(cell.text for cell in self._cells):
            table = self._table or Table(self._out)
            table.add(self._cells)
            if self._table is None:
                table.end()
            self._out.write_outside("\n")
        self._cells = None

    def _end_table(self) -> None:
        self._end_row()
        self._out.end_line(self._level)
        if self._table is not None:
            self._table.end()
        self._table = None


def _number(text: str, most: int) -> int:
    """A whole number from 1 to ``most``; 1 for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) < 7
    return min(max(1, int(text)), most) if is_number else 1


FORMAT = BinaryFormat(
    name="an OpenDocument file",
    suffixes=(".odt", ".ods", ".odp"),
    read=read_opendocument,
    offsets="the document's paragraphs and rows of tables, one per line, a tab after a cell",
    magic=MAGIC,
    contains=b"opendocument",
)
