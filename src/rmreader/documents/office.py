"""Word documents (.docx) by the standard library, and PDF by pypdf: from strangers, so every size is bounded."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from xml.parsers import expat

from rmreader.documents.markup import ROW, Paragraphs
from rmreader.documents.places import Stretch, paragraphs

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_MOST_XML = 64 << 20  # bytes of a document's XML, unpacked; 100 times as many as packed, at most
_MOST_TEXT = 64 << 20  # characters of a PDF's pages
_MOST_PAGES = 20_000


class Unreadable(ValueError):
    """Why a document cannot be read; the words go into a sentence."""


def read_docx(content: bytes) -> tuple[str, list[Stretch]]:
    """Its text, one line per paragraph or row of a table, and these, under the headings that their styles make."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open("word/document.xml") as file:
            most = min(_MOST_XML, max(16 << 20, 100 * len(content)))
            xml = file.read(most + 1)
    except (zipfile.BadZipFile, KeyError, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise Unreadable(f"no Word document that can be opened ({' '.join(str(error).split())})") from None
    if len(xml) > most:
        raise Unreadable(f"a Word document that unfolds to more than {most:,} bytes")
    walk = _Word()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = walk.start, walk.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = walk.text, _no_doctype
    try:
        parser.Parse(xml, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise Unreadable(f"a damaged Word document ({error})") from None
    walk.finish()
    return "".join(walk.original), walk.out.made


def _no_doctype(*_: object) -> None:
    raise ValueError("it declares a document type, which no Word document does")


class _Word:
    """The walk through a document's XML."""

    def __init__(self) -> None:
        self.out, self.original, self.size = Paragraphs(), list[str](), 0
        self.level: int | None = None
        self.open, self.row, self.skipped = False, False, 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" Fallback"):  # the same once more, for older programs
            self.skipped += 1
        elif name == f"{_WORD}tr":
            self._between_rows(row=True)
        elif name == f"{_WORD}p":
            self.finish()
        elif name == f"{_WORD}pStyle":
            style = attributes.get(f"{_WORD}val", "").lower().replace(" ", "")
            number = style.removeprefix("heading")
            self.level = 0 if style == "title" else int(number) if number in set("123456789") else None
        elif name == f"{_WORD}t":
            self.open = True
        elif name in (f"{_WORD}tab", f"{_WORD}br", f"{_WORD}cr") and self.out.maker.size:
            self._write("\t" if name.endswith("tab") else "\n")
        elif name == f"{_WORD}noBreakHyphen":
            self._write("-")

    def end(self, name: str) -> None:
        if name.endswith(" Fallback"):
            self.skipped -= 1
        elif name == f"{_WORD}t":
            self.open = False
        elif name == f"{_WORD}tr":
            self._between_rows(row=False)
        elif name == f"{_WORD}p":
            self.finish()

    def text(self, text: str) -> None:
        if self.open and not self.skipped:
            self._write(text)

    def _write(self, text: str) -> None:
        if not self.skipped:
            self.out.maker.add(text, self.size)
            self.original.append(text)
            self.size += len(text)

    def _between_rows(self, row: bool) -> None:
        self.row = False
        self.finish()
        self.row = row

    def finish(self) -> None:
        """The paragraph ends; the next is on a line of its own, or in a row of a table after a tab."""
        if self.row and self.level is None and 0 < self.out.maker.size < ROW:
            if self.original[-1] != "\t":
                self._write("\t")
        elif self.out.maker.size:
            self.out.end(self.level)
            self.original.append("\n")
            self.size += 1
        self.level = None


def read_pdf(content: bytes) -> tuple[str, list[Stretch]]:
    """The text of its pages, a form feed after each, and the paragraphs in it."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    texts, left = list[str](), _MOST_TEXT
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("a PDF document under a password")
        if len(reader.pages) > _MOST_PAGES:
            raise Unreadable(f"a PDF document of more than {_MOST_PAGES:,} pages")
        for page in reader.pages:
            text = page.extract_text().encode("utf-8", "replace").decode()  # some have half a surrogate pair
            texts.append(re.sub("[\0\f]", " ", text) + "\f")
            left -= len(text)
            if left < 0:
                raise Unreadable(f"a PDF document with more than {_MOST_TEXT:,} characters")
    except Unreadable:
        raise
    except (PyPdfError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError,
            RuntimeError, TypeError, ValueError, zlib.error) as error:  # fmt: skip
        raise Unreadable(f"a PDF document that pypdf cannot read ({type(error).__name__})") from None
    return "".join(texts), list(_pages(texts))


def _pages(texts: list[str]) -> Iterator[Stretch]:
    offset = 0
    for number, text in enumerate(texts, start=1):
        yield from paragraphs(text.removesuffix("\f"), number, "", offset)
        offset += len(text)
