"""PDF documents, by pypdfium2: rows stay lines, every character has its rectangle."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rmreader.documents.formats.format import BinaryFormat, Unreadable
from rmreader.documents.paragraphs import DocumentBuilder
from rmreader.documents.places import Runs, TextSpan
from rmreader.documents.tables import Table

_MOST_PAGES = 20_000
_CELL_GAP = 1.2  # heights of a letter between two cells of a row, at least
_LINE_GAP = 0.9  # heights of a letter between two paragraphs, at least
_LEAST_ROWS = 3  # of a table
_LONGEST_CELL = 80  # characters of a cell; longer ones are columns of a page
_HYPHEN = 2  # how pdfium spells a hyphen at the end of a line
_NO_BOX = (0.0, 0.0, 0.0, 0.0)


def read_pdf(content: bytes, out: DocumentBuilder) -> None:
    """Write the text of the pages, a form feed after each, and the paragraphs and tables in it."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("it is under a password") from None
        raise Unreadable(f"pypdfium2 cannot read it ({error})") from None
    if len(document) > _MOST_PAGES:
        raise Unreadable(f"it has more than {_MOST_PAGES:,} pages")
    for number in range(len(document)):
        out.page = number + 1
        try:
            page = document[number]
            text_page = page.get_textpage()
        except pypdfium2.PdfiumError as error:
            raise Unreadable(f"page {number + 1} cannot be read ({error})") from None
        _read_page(text_page, out)
        text_page.close()
        page.close()
        out.write_outside("\f")
        out.boxes.extend(_NO_BOX)


def page_characters(content: bytes, number: int) -> tuple[str, array[float]]:
    """The text of one page, from 1, as ``read_pdf`` writes it, and the rectangle of each character.

    ``Unreadable`` where there is no such page.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
        text_page = document[number - 1].get_textpage()
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise Unreadable(f"page {number} cannot be read ({error})") from None
    characters, boxes = _characters(text_page)
    return "".join(characters), boxes


@dataclass
class _Line:
    """A line of a page: where it is, and where the gaps are that part it into cells."""

    begin: int
    end: int
    gaps: list[tuple[int, int]] = field(default_factory=list)
    left: float = 0.0
    bottom: float = 0.0
    right: float = 0.0
    top: float = 0.0

    @property
    def height(self) -> float:
        return max(1.0, self.top - self.bottom)


def _read_page(text_page: Any, out: DocumentBuilder) -> None:
    characters, boxes = _characters(text_page)
    text = "".join(characters)
    offset = out.place
    out.write_outside(text)
    out.boxes.extend(boxes)
    lines = _rows(_lines(text, boxes))
    first = 0
    while first < len(lines):
        last = first
        while last < len(lines) and _is_row_like(lines[first], lines[last]):
            last += 1
        if last - first >= _LEAST_ROWS:
            _add_table(text, lines[first:last], offset, out)
        else:
            last = first + 1
            while last < len(lines) and not _is_apart(lines[last - 1], lines[last]):
                last += 1
            begin = lines[first].begin
            out.add_text(text[begin : lines[last - 1].end], offset + begin)
        first = last


def _characters(text_page: Any) -> tuple[list[str], array[float]]:
    """Every character of a page and its rectangle; those that pdfium adds have none."""
    from pypdfium2 import raw

    count = raw.FPDFText_CountChars(text_page.raw)
    characters: list[str] = []
    boxes = array("f")
    left = ctypes.c_double()
    right = ctypes.c_double()
    bottom = ctypes.c_double()
    top = ctypes.c_double()
    for number in range(count):
        code = raw.FPDFText_GetUnicode(text_page.raw, number)
        character = _character(code)
        if not character:
            continue
        characters.append(character)
        place = (left, right, bottom, top)
        has_box = raw.FPDFText_GetCharBox(text_page.raw, number, *place)
        if has_box and character != "\n":
            boxes.extend((left.value, bottom.value, right.value, top.value))
        else:
            boxes.extend(_NO_BOX)
    return characters, boxes


def _character(code: int) -> str:
    """A character as text has it; "" for what is none."""
    if code in (0, 13, 0xFFFE, 0xFFFF):
        return ""
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        return ""
    if code == _HYPHEN:
        return "-"
    if code in (10, 12):
        return "\n"
    return chr(code) if code >= 32 and code != 127 else " "


def _lines(text: str, boxes: array[float]) -> list[_Line]:
    lines = []
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        if text[begin:end].strip():
            lines.append(_line(text, begin, end, boxes))
        begin = end + 1
    return lines


def _line(text: str, begin: int, end: int, boxes: array[float]) -> _Line:
    """A line, with the gaps that are wider than a blank."""
    letters: list[tuple[int, array[float]]] = []
    for at in range(begin, end):
        box = boxes[4 * at : 4 * at + 4]
        if text[at] != " " and box[2] > box[0]:
            letters.append((at, box))
    line = _Line(begin, end)
    if letters:
        line.left = min(box[0] for _, box in letters)
        line.bottom = min(box[1] for _, box in letters)
        line.right = max(box[2] for _, box in letters)
        line.top = max(box[3] for _, box in letters)
    for letter, next_letter in pairwise(letters):
        before, box = letter
        after, next_box = next_letter
        space = next_box[0] - box[2]
        if space > _CELL_GAP * line.height:
            line.gaps.append((before + 1, after))
    return line


def _rows(lines: list[_Line]) -> list[_Line]:
    """Lines that stand beside each other as one, as the cells of a row may."""
    rows: list[_Line] = []
    for line in lines:
        if rows and _is_beside(rows[-1], line):
            before = rows[-1]
            before.gaps += [(before.end, line.begin), *line.gaps]
            before.end = line.end
            before.right = line.right
        else:
            rows.append(line)
    return rows


def _is_beside(before: _Line, line: _Line) -> bool:
    overlap = min(before.top, line.top) - max(before.bottom, line.bottom)
    is_level = overlap > 0.5 * min(before.height, line.height)
    return is_level and line.left > before.right + _CELL_GAP * before.height


def _is_apart(before: _Line, line: _Line) -> bool:
    """Whether a paragraph ends between two lines: far apart, the second above, or in a table."""
    if before.gaps or line.gaps:
        return len(before.gaps) != len(line.gaps)
    gap = before.bottom - line.top
    return gap > _LINE_GAP * min(before.height, line.height) or gap < -2 * before.height


def _is_row_like(first: _Line, line: _Line) -> bool:
    """Whether two lines can be rows of one table."""
    if not first.gaps or len(line.gaps) != len(first.gaps):
        return False
    return all(end - begin <= _LONGEST_CELL for begin, end in _cells(line))


def _cells(line: _Line) -> list[tuple[int, int]]:
    begins = [line.begin]
    ends = []
    for before, after in line.gaps:
        ends.append(before)
        begins.append(after)
    ends.append(line.end)
    return list(zip(begins, ends, strict=True))


def _add_table(text: str, lines: Sequence[_Line], offset: int, out: DocumentBuilder) -> None:
    table = Table(out)
    for line in lines:
        row = []
        for begin, end in _cells(line):
            words = text[begin:end]
            span = TextSpan(words, Runs([(0, offset + begin, len(words))]))
            row.append(span.cut(0, len(words)))
        table.add(row)
    table.end()


FORMAT = BinaryFormat(
    name="a PDF document",
    suffixes=(".pdf",),
    read=read_pdf,
    offsets="the text of the pages as pdfium gives it, a form feed after each",
    magic=b"%PDF-",
    package="pypdfium2",
    extra="pdf",
)
