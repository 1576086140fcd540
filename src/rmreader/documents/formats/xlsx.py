"""Excel tables (.xlsx), by the standard library: dates and amounts as a person sees them."""

from __future__ import annotations

import posixpath
import re
from datetime import datetime, timedelta

from rmreader.documents.formats.format import BinaryFormat, Unreadable
from rmreader.documents.formats.zipped import MAGIC, Archive, ignore, relations, walk_xml
from rmreader.documents.paragraphs import DocumentBuilder
from rmreader.documents.places import TextSpan
from rmreader.documents.tables import EMPTY, Header, Table

_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main "
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships id"
_FIRST_DAY = datetime(1899, 12, 30)  # day 0, as Excel counts
_LAST_DAY = 2_958_465
_DATES = {*range(14, 23), *range(45, 48)}  # formats that every Excel knows
_SHARES = {9: "0%", 10: "0.00%"}
_QUOTED = re.compile(r"\"[^\"]*\"|\[[^\]]*\]|\\.")
_MOST_COLUMNS = 300  # that are kept apart where cells between them are empty
_CURRENCIES = "€$£¥"


def read_xlsx(content: bytes, out: DocumentBuilder) -> None:
    """Write one line per row, a tab after each cell, under the name of the sheet."""
    archive = Archive(content)
    strings = _Strings()
    if "xl/sharedStrings.xml" in archive.names:
        walk_xml(archive.read("xl/sharedStrings.xml"), strings.start, strings.end, strings.text)
    styles = _Styles()
    if "xl/styles.xml" in archive.names:
        walk_xml(archive.read("xl/styles.xml"), styles.start, ignore, ignore)
    for name, part in _sheets(archive):
        out.set_heading(0, name)
        sheet = _Sheet(out, strings.texts, styles.codes())
        walk_xml(archive.read(part), sheet.start, sheet.end, sheet.text)
        sheet.finish()


def _sheets(archive: Archive) -> list[tuple[str, str]]:
    """The name of every sheet, and the part that it is in."""
    names: dict[str, str] = {}

    def add_name(name: str, attributes: dict[str, str]) -> None:
        if name == f"{_SHEET}sheet":
            names[attributes.get(_RELATION, "")] = attributes.get("name", "")

    walk_xml(archive.read("xl/workbook.xml"), add_name, ignore, ignore)
    targets = relations(archive.read("xl/_rels/workbook.xml.rels"))
    sheets = []
    for relation, name in names.items():
        part = posixpath.normpath(posixpath.join("/xl", targets.get(relation, ""))).lstrip("/")
        if part in archive.names and "worksheets" in part:
            sheets.append((name, part))
    if not sheets:
        raise Unreadable("it has no sheets")
    return sheets


class _Strings:
    """The texts that cells share."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._in_text = False

    def start(self, name: str, _: dict[str, str]) -> None:
        if name == f"{_SHEET}si":
            self._parts = []
        self._in_text = name == f"{_SHEET}t"

    def end(self, name: str) -> None:
        self._in_text = False
        if name == f"{_SHEET}si":
            self.texts.append("".join(self._parts))

    def text(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class _Styles:
    """How numbers are shown, by the style of their cell."""

    def __init__(self) -> None:
        self._custom: dict[str, str] = {}
        self._formats: list[str] = []
        self._in_cells = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == f"{_SHEET}numFmt":
            self._custom[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name.startswith(_SHEET) and name.endswith("Xfs"):
            self._in_cells = name == f"{_SHEET}cellXfs"
        elif name == f"{_SHEET}xf" and self._in_cells:
            self._formats.append(attributes.get("numFmtId", "0"))

    def codes(self) -> list[str]:
        """The format of every style, as Excel spells it."""
        return [self._code(number) for number in self._formats]

    def _code(self, number: str) -> str:
        if number in self._custom:
            return self._custom[number]
        known = int(number) if _is_number(number) else 0
        return "yyyy-mm-dd" if known in _DATES else _SHARES.get(known, "")


class _Sheet:
    """Where the walk through a sheet is."""

    def __init__(self, out: DocumentBuilder, strings: list[str], codes: list[str]) -> None:
        self._out = out
        self._strings = strings
        self._codes = codes
        self._table = Table(out, Header.LIKELY)
        self._cells: list[TextSpan] = []
        self._parts: list[str] = []
        self._kind = ""
        self._code = ""
        self._column = 0
        self._row = 0
        self._in_value = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name.removeprefix(_SHEET):
            case "row":
                self._start_row(attributes.get("r", ""))
            case "c":
                self._kind = attributes.get("t", "n")
                self._code = _item(self._codes, attributes.get("s", ""))
                self._column = _column_number(attributes.get("r", ""))
                self._parts = []
            case "v" | "t":
                self._in_value = True

    def _start_row(self, number: str) -> None:
        row = int(number) if _is_number(number) else self._row + 1
        if row > self._row + 1:  # empty rows part two tables
            self._table.end()
        self._row = row
        self._cells = []

    def end(self, name: str) -> None:
        match name.removeprefix(_SHEET):
            case "v" | "t":
                self._in_value = False
            case "c":
                self._end_cell()
            case "row":
                self._end_row()

    def _end_cell(self) -> None:
        while len(self._cells) < min(self._column, _MOST_COLUMNS):
            self._cells.append(EMPTY)
        value = "".join(self._parts)
        self._out.write(self._value(value))
        self._cells.append(self._out.take_cell())

    def _end_row(self) -> None:
        if any(cell.text for cell in self._cells):
            self._table.add(self._cells)
            self._out.write_outside("\n")
        else:
            self._table.end()

    def text(self, text: str) -> None:
        if self._in_value:
            self._parts.append(text)

    def finish(self) -> None:
        self._table.end()

    def _value(self, value: str) -> str:
        match self._kind:
            case "s":
                return _item(self._strings, value)
            case "b":
                return "yes" if value == "1" else "no"
            case "n":
                return shown_number(value, self._code)
            case _:
                return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _item(items: list[str], number: str) -> str:
    """The item of this number; nothing where there is none."""
    if not _is_number(number) or int(number) >= len(items):
        return ""
    return items[int(number)]


def _column_number(cell: str) -> int:
    """The column of a cell such as AB12, from 0."""
    number = 0
    for letter in cell[:4]:
        if not "A" <= letter <= "Z":
            break
        number = 26 * number + ord(letter) - ord("A") + 1
    return max(0, number - 1)


def shown_number(value: str, code: str) -> str:
    """A number in a cell as its format shows it."""
    try:
        number = float(value)
    except ValueError:
        return value
    bare = _QUOTED.sub("", code).lower()
    if any(letter in bare for letter in "ydh") and 0 <= number <= _LAST_DAY:
        return _date(number, bare)
    if "%" in bare:
        return f"{100 * number:.6g}%"
    amount = f"{number:.15g}"
    for sign in _CURRENCIES:
        if sign in code:
            is_before = code.index(sign) < len(code.partition("0")[0].partition("#")[0])
            return f"{sign}{amount}" if is_before else f"{amount} {sign}"
    return amount


def _date(number: float, code: str) -> str:
    moment = _FIRST_DAY + timedelta(seconds=round(86400 * number))
    if not any(letter in code for letter in "yd"):
        return f"{moment:%H:%M}"
    has_time = "h" in code and number % 1
    return f"{moment:%Y-%m-%d %H:%M}" if has_time else f"{moment:%Y-%m-%d}"


FORMAT = BinaryFormat(
    name="an Excel table (.xlsx)",
    suffixes=(".xlsx", ".xlsm"),
    read=read_xlsx,
    offsets="the rows of the sheets, one per line, a tab after a cell",
    magic=MAGIC,
    contains=b"xl/",
)
