"""A page of a PDF document as a picture, with the places of some of its text on it.

Called in the process that reads documents from strangers: see ``sandbox.py``.
"""

from __future__ import annotations

import ctypes
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rmreader.core.errors import UserError
from rmreader.documents.formats.format import Unreadable
from rmreader.documents.formats.pdf import page_characters
from rmreader.documents.paragraphs import Paragraphs
from rmreader.documents.parse import Box, Document
from rmreader.documents.places import TextSpan

_LONGEST_SIDE = 1_500  # pixels of a picture
_SCALE = 2.0  # pixels per point, of a page of ordinary size
_DEPTH = 8  # bits of a colour
_RGB = 2  # PNG's number for red, green and blue


@dataclass(frozen=True)
class PagePlace:
    """A part of a passage on a page. Only that page is read to find it, however many there are."""

    page: int
    pieces: Sequence[tuple[str, int, int]]
    """The passage, as ``TextSpan.pieces`` gives it."""
    start: int
    """First character in the document's original."""
    end: int

    @classmethod
    def of(cls, passage: TextSpan, start: int, end: int) -> PagePlace:
        """The place of ``passage.text[start:end]``."""
        first, last = passage.span(start, end)
        return cls(passage.page or 1, list(passage.pieces()), first, last)


@dataclass(frozen=True)
class Area:
    """A rectangle on a picture, as shares of its width and height from the upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class PageImage:
    """A picture of a page."""

    page: int
    width: int
    height: int
    png: bytes
    areas: Sequence[Area]
    """Where the text is that was asked for, a rectangle per line."""


def draw_page(name: str, content: bytes, place: PagePlace) -> PageImage:
    """A page of a PDF document with a place marked, if the page still has it."""
    try:
        text, rectangles = page_characters(content, place.page)
    except Unreadable as error:
        raise UserError(f"{name}: {error}; index it again.") from None

    boxes: list[Box] = []
    begin = _begin_of_page(text, place.pieces)
    if begin is not None:
        page = Document(text, Paragraphs(), rectangles=rectangles)
        boxes = page.boxes(place.start - begin, place.end - begin)

    return _draw(content, place.page, boxes)


def _begin_of_page(text: str, pieces: Sequence[tuple[str, int, int]]) -> int | None:
    """Where a page begins in its document, by a passage that is on it; None where it is not."""
    exact = [(words, origin) for words, origin, length in pieces if length == len(words)]
    if not exact:
        return None
    longest, origin = max(exact, key=lambda piece: len(piece[0]))
    at = text.find(longest)
    while at >= 0:
        begin = origin - at
        if all(text.startswith(words, place - begin) for words, place in exact):
            return begin
        at = text.find(longest, at + 1)
    return None


def _draw(content: bytes, number: int, boxes: Sequence[Box]) -> PageImage:
    import pypdfium2

    page = pypdfium2.PdfDocument(content)[number - 1]
    longest = max(1.0, *page.get_size())
    bitmap = page.render(
        scale=min(_SCALE, _LONGEST_SIDE / longest),
        rev_byteorder=True,
        fill_color=(255, 255, 255, 255),
    )
    areas = [_area(page, box, bitmap.width, bitmap.height) for box in boxes]
    return PageImage(number, bitmap.width, bitmap.height, _png(bitmap), areas)


def _area(page: Any, box: Box, width: int, height: int) -> Area:
    """Where a rectangle of a page is on its picture, however the page is turned or cut."""
    first = _pixel(page, box.left, box.top, width, height)
    second = _pixel(page, box.right, box.bottom, width, height)
    left, right = sorted((first[0] / width, second[0] / width))
    top, bottom = sorted((first[1] / height, second[1] / height))
    return Area(left, top, right, bottom)


def _pixel(page: Any, across: float, up: float, width: int, height: int) -> tuple[int, int]:
    from pypdfium2 import raw

    x = ctypes.c_int()
    y = ctypes.c_int()
    raw.FPDF_PageToDevice(page.raw, 0, 0, width, height, 0, across, up, x, y)
    return x.value, y.value


def _png(bitmap: Any) -> bytes:
    """A picture as PNG, which needs no library: rows of red, green and blue."""
    pixels = bytes(bitmap.buffer)
    rows = []
    for row in range(bitmap.height):
        begin = row * bitmap.stride
        line = pixels[begin : begin + bitmap.width * bitmap.n_channels]
        rows.append(b"\0" + _rgb(line, bitmap.n_channels))
    size = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, _DEPTH, _RGB, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _rgb(line: bytes, channels: int) -> bytes:
    """A row of pixels without what is not a colour; a grey one as three equal colours."""
    if channels == 3:
        return line
    made = bytearray(len(line) // channels * 3)
    for colour in range(3):
        made[colour::3] = line[min(colour, channels - 1) :: channels]
    return bytes(made)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
