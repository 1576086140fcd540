"""A document of any kind that can be read: plain text, Markdown, HTML, Word, PDF; anything else is named and refused.

The kind is the ending's, and the content must be of that kind: a PDF document called x.txt is refused, not guessed at.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmreader.core.errors import UserError
from rmreader.data.tables import foreign
from rmreader.documents.markup import read_html, read_markdown
from rmreader.documents.office import Unreadable, read_docx, read_pdf
from rmreader.documents.places import Stretch, join, paragraphs

OFFSETS = "open(file, encoding='utf-8-sig')"
"""What starts and ends count the characters of: the text that Python reads, without a byte order mark and with every
line end as one \\n. In ``open(file, encoding='utf-8-sig', newline='')`` each \\r\\n before a place adds one to it."""
LARGEST = 64 << 20  # bytes of a document

_KINDS = {
    ".md": "markdown", ".markdown": "markdown", ".mkd": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html",
    ".docx": "docx", ".pdf": "pdf",
}  # fmt: skip
_TEXTS = {".txt", ".text", ".md", ".markdown", ".mkd", ".html", ".htm", ".xhtml"}
_OFFICE = {
    "docx": (
        read_docx,
        "a Word document (.docx)",
        "the document's paragraphs and rows of tables, one per line, a tab after a cell",
    ),
    "pdf": (read_pdf, "a PDF document", "the text of the pages as pypdf gives it, a form feed after each"),
}
_READ: dict[str, Callable[[str], Iterable[Stretch]]]
_READ = {"text": paragraphs, "markdown": read_markdown, "html": read_html}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_.:-]{2,40})", re.IGNORECASE)
_LETTERS = ("big5", "cp125", "cp874", "cp932", "cp949", "euc", "gb", "iso8859", "koi8", "mac", "shift")  # no zlib
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True)
class Document:
    """What a file says."""

    original: str
    """The text that places count in: see ``offsets``."""
    paragraphs: Sequence[Stretch]
    plain: bool = False
    """Whether it has no markup, so that the original itself can be read."""
    offsets: str = OFFSETS
    """What the original is, in words or as Python."""
    note: str = ""
    """What a person should know about how it was read; empty where all is as expected."""

    @property
    def whole(self) -> Stretch:
        """All of it as one text: a plain text as it is, others as their paragraphs."""
        text = self.original
        return Stretch(text, ((0, 0, len(text)),)) if self.plain else join(self.paragraphs)


def read_document(place: str | Path, content: bytes | None = None) -> Document:
    """A document from a file, or its content; ``-`` is standard input, ~ the person's own folder."""
    content = _bytes(place) if content is None else content
    if len(content) > LARGEST:
        raise UserError(f"{place}: more than {LARGEST:,} bytes; split it.")
    ending = Path(place).suffix.lower()
    kind = _KINDS.get(ending, "text")
    found = foreign(content)
    if kind in _OFFICE:
        read, name, offsets = _OFFICE[kind]
        if not content.startswith(b"PK\x03\x04" if kind == "docx" else b"%PDF-"):
            raise UserError(f"{place}: this is {found or 'something else'}, not {name} as its name says; rename it.")
        try:
            document = Document(*read(content), offsets=offsets)
        except Unreadable as error:
            raise UserError(f"{place}: {error}; save its text as a UTF-8 file and give that.") from None
        if not document.paragraphs:
            raise UserError(f"{place}: no text in it, as in a scan; give a file with text.")
        return document
    if found is not None and found != "text in UTF-16":
        raise UserError(f"{place}: this is {found}, not plain text; save its text as a UTF-8 file and give that.")
    text, encoding = _decode(place, content, ending)
    text = io.StringIO(text, newline=None).read()
    if not text.strip():
        raise UserError(f"{place}: the passage is empty; give a text to read.")
    offsets = OFFSETS if encoding.startswith("utf-8") else f"open(file, encoding='{encoding}')"
    note = "" if encoding.startswith("utf-8") else f"{place}: not UTF-8; read as {encoding}."
    made = list(_READ[kind](text))
    if not made:
        raise UserError(f"{place}: nothing but markup; give a file with text.")
    return Document(text, made, kind == "text", offsets, note)


def _bytes(place: str | Path) -> bytes:
    """The content of a file or of standard input, of at most ``LARGEST`` bytes."""
    if str(place) == "-" and sys.stdin is None:
        raise UserError("-: standard input is closed; give a file, or the passage through a pipe.")
    try:
        if str(place) == "-":
            content = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(place).expanduser().open("rb") as file:
                content = file.read(LARGEST + 1)
    except IsADirectoryError:
        raise UserError(f"{place}: a folder; make an index of it and ask that: rmreader index {place}.") from None
    except OSError as error:
        raise UserError(f"{place}: cannot be read ({error.strerror}); check the path.") from None
    except (RuntimeError, ValueError) as error:  # such as ~nobody, or a NUL in the name
        raise UserError(f"{place}: no such file ({error}); check the path.") from None
    return content


def _decode(place: str | Path, content: bytes, ending: str) -> tuple[str, str]:
    """Text and its encoding: by its mark, else UTF-8, else as a page declares it, else Windows-1252 where the ending
    says that it is text; what has characters that no text has is binary data."""
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    binary = f"{place}: this is binary data, not plain text; save its text as a UTF-8 file and give that."
    if encoding != "utf-16" and b"\0" in content:
        raise UserError(binary)
    try:
        if "\0" in (text := content.decode(encoding)):
            raise UserError(binary)
        return text, encoding
    except UnicodeDecodeError as error:
        problem = f"{place}: not {encoding.upper()} text (at byte {error.start}); save it as UTF-8."
    if encoding != "utf-8" or ending not in _TEXTS:
        raise UserError(problem)
    declared = _CHARSET.search(content[:4096]) if _KINDS.get(ending) == "html" else None
    names = [declared[1].decode("ascii"), "cp1252"] if declared else ["cp1252"]
    for name in names:
        try:
            encoding = codecs.lookup(name).name
            if encoding.startswith(_LETTERS) and not _CONTROLS.search(text := content.decode(encoding)):
                return text, encoding
        except (LookupError, ValueError):
            continue
    raise UserError(binary)
