"""The content of a file as a document: which format it has, which encoding, and what it says."""

from __future__ import annotations

import codecs
import io
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import PurePath
from typing import NamedTuple

from rmreader.core.checks import NO_PASSAGE
from rmreader.core.errors import UserError
from rmreader.documents.formats import format_of, has_known_suffix, kind_of
from rmreader.documents.formats.format import BinaryFormat, TextFormat, Unreadable
from rmreader.documents.paragraphs import (
    DocumentBuilder,
    ParagraphBuilder,
    Paragraphs,
    TooMuchText,
)
from rmreader.documents.places import Runs, TextSpan, join

NO_TEXT = "no text in it, as in a scan; index it with --ocr, or give a file with text."
OFFSETS = "open(file, encoding='utf-8-sig')"
"""What starts and ends count the characters of: the text as Python reads it.

That is without a byte order mark, and with every line end as one \\n. In
``open(file, encoding='utf-8-sig', newline='')`` each \\r\\n before a place adds one to it.
"""
LARGEST = 64 << 20  # bytes of a document
_MOST_TEXT = 64 << 20  # characters that a packed or binary document may have

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_.:-]{2,40})", re.IGNORECASE
)
_LETTERS = (  # beginnings of encodings that are letters; zlib, for one, is not
    "big5", "cp125", "cp874", "cp932", "cp949", "euc", "gb", "iso8859", "koi8", "mac", "shift",
)  # fmt: skip
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_SAVE_AS_TEXT = "save its text as a UTF-8 file and give that."
_NOT_PLAIN_TEXT = "not plain text; save its text as a UTF-8 file and give that."


class Box(NamedTuple):
    """A rectangle on a page, in points from its lower left corner."""

    page: int
    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True)
class Document:
    """What a file says."""

    original: str
    """The text that places count in: see ``offsets``."""
    paragraphs: Paragraphs
    plain: bool = False
    """Whether it has no markup, so that the original itself can be read."""
    offsets: str = OFFSETS
    """What the original is, in words or as Python."""
    note: str = ""
    """What a person should know about how it was read; empty where all is as expected."""
    rectangles: array[float] = field(default_factory=lambda: array("f"))
    """Left, bottom, right and top of every character of the original, in a PDF document."""

    @property
    def whole(self) -> TextSpan:
        """All of it as one text: a plain text as it is, others as their paragraphs."""
        text = self.original
        if self.plain:
            return TextSpan(text, Runs([(0, 0, len(text))]))
        return join(self.paragraphs)

    def boxes(self, start: int, end: int) -> list[Box]:
        """Where ``original[start:end]`` is on the pages: one rectangle per line."""
        boxes: list[Box] = []
        for box in self._character_boxes(start, end):
            if boxes and _is_same_line(boxes[-1], box):
                boxes[-1] = _around(boxes[-1], box)
            else:
                boxes.append(box)
        return boxes

    def _character_boxes(self, start: int, end: int) -> Iterator[Box]:
        if not self.rectangles:
            return
        page = self.original.count("\f", 0, start) + 1
        for at in range(start, end):
            left, bottom, right, top = self.rectangles[4 * at : 4 * at + 4]
            if right > left:
                yield Box(page, left, bottom, right, top)
            if self.original[at] == "\f":
                page += 1


def _is_same_line(line: Box, box: Box) -> bool:
    overlap = min(line.top, box.top) - max(line.bottom, box.bottom)
    return line.page == box.page and overlap > 0 and box.right > line.left


def _around(line: Box, box: Box) -> Box:
    return Box(
        line.page,
        min(line.left, box.left),
        min(line.bottom, box.bottom),
        max(line.right, box.right),
        max(line.top, box.top),
    )


class ReadLater(UserError):
    """A document was not read for a reason that is not in it: another time it may be."""


class MissingPackage(ReadLater):
    """A format needs a package that is not installed."""


def check_package(name: str) -> None:
    """Refuse a file whose format needs a package that is not there."""
    format = format_of(name)
    if isinstance(format, BinaryFormat) and format.package and find_spec(format.package) is None:
        raise MissingPackage(
            f"{name}: this is {format.name}, which needs {format.package}; "
            f"pip install 'rmreader[{format.extra}]' gets it."
        )


def parse(name: str, content: bytes) -> Document:
    """The document that a file of this name and content is; a sentence where it is none."""
    format = format_of(name)
    try:
        if isinstance(format, BinaryFormat):
            return _parse_binary(name, content, format)
        return _parse_text(name, content, format)
    except Unreadable as error:
        raise UserError(f"{name}: this is {format.name}, but {error}; {_SAVE_AS_TEXT}") from None
    except TooMuchText:
        raise UserError(f"{name}: more than {_MOST_TEXT:,} characters; split it.") from None


def _parse_binary(name: str, content: bytes, format: BinaryFormat) -> Document:
    kind = kind_of(content)
    if not content.startswith(format.magic) or kind not in (format.name, "a ZIP archive", None):
        kind = kind or "something else"
        raise UserError(f"{name}: this is {kind}, not {format.name} as its name says; rename it.")
    builder = DocumentBuilder(_MOST_TEXT)
    format.read(content, builder)
    paragraphs = builder.finish()
    if not paragraphs:
        raise UserError(f"{name}: {NO_TEXT}")
    return Document(builder.original, paragraphs, offsets=format.offsets, rectangles=builder.boxes)


def _parse_text(name: str, content: bytes, format: TextFormat) -> Document:
    kind = kind_of(content)
    if kind is not None and kind != "text in UTF-16":
        raise UserError(f"{name}: this is {kind}, {_NOT_PLAIN_TEXT}")
    text, encoding = _decode(name, content, format)
    text = io.StringIO(text, newline=None).read()
    if not text.strip():
        raise UserError(f"{name}: {NO_PASSAGE}")
    builder = ParagraphBuilder()
    format.read(text, builder)
    paragraphs = builder.finish()
    if not paragraphs:
        raise UserError(f"{name}: nothing but markup; give a file with text.")
    offsets = OFFSETS
    note = ""
    if not encoding.startswith("utf-8"):
        offsets = f"open(file, encoding='{encoding}')"
        note = f"{name}: not UTF-8; read as {encoding}."
    is_plain = format.is_plain and not builder.has_marks
    return Document(text, paragraphs, is_plain, offsets, note)


def _decode(name: str, content: bytes, format: TextFormat) -> tuple[str, str]:
    """Text and its encoding.

    By its mark, else UTF-8, else as a page declares it, else Windows-1252 where the suffix says
    that it is text. What has characters that no text has is binary data.
    """
    binary = UserError(f"{name}: this is binary data, {_NOT_PLAIN_TEXT}")
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in content:
        raise binary
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8" or not has_known_suffix(PurePath(name).name):
            sentence = f"{name}: not {encoding.upper()} text (at byte {error.start})"
            raise UserError(f"{sentence}; save it as UTF-8.") from None
    else:
        if "\0" in text:
            raise binary
        return text, encoding
    for other in _other_encodings(content, format):
        found = _decode_letters(content, other)
        if found is not None:
            return found
    raise binary


def _other_encodings(content: bytes, format: TextFormat) -> list[str]:
    declared = _CHARSET.search(content[:4096]) if format.declares_charset else None
    return [declared[1].decode("ascii"), "cp1252"] if declared else ["cp1252"]


def _decode_letters(content: bytes, encoding: str) -> tuple[str, str] | None:
    """Text in an encoding of letters, and its usual name; None where it is not that."""
    try:
        encoding = codecs.lookup(encoding).name
        if not encoding.startswith(_LETTERS):
            return None
        text = content.decode(encoding)
    except (LookupError, ValueError):
        return None
    return None if _CONTROLS.search(text) else (text, encoding)
