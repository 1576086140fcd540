"""EPUB books: their chapters are HTML pages in a ZIP archive."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from rmreader.documents.formats.format import BinaryFormat, Unreadable
from rmreader.documents.formats.html import read_html
from rmreader.documents.formats.zipped import MAGIC, Archive, ignore, walk_xml
from rmreader.documents.paragraphs import DocumentBuilder

_CONTAINER = "META-INF/container.xml"
_BOOK = "http://www.idpf.org/2007/opf "
_PAGES = ("application/xhtml+xml", "text/html")
_MOST_CHAPTERS = 10_000


def read_epub(content: bytes, out: DocumentBuilder) -> None:
    """Write the pages of the chapters as they are, and add the paragraphs in them."""
    archive = Archive(content)
    chapters = _chapters(archive)
    if len(chapters) > _MOST_CHAPTERS:
        raise Unreadable(f"it has more than {_MOST_CHAPTERS:,} chapters")
    for part in chapters:
        page = archive.read(part).decode("utf-8", "replace").replace("\0", " ")
        offset = out.place
        out.write_outside(page)
        read_html(page, out, offset)


def _chapters(archive: Archive) -> list[str]:
    """The parts of the chapters, in the order in which they are read."""
    books: list[str] = []
    parts: dict[str, str] = {}
    order: list[str] = []

    def add_book(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" rootfile"):
            books.append(attributes.get("full-path", ""))

    def add_part(name: str, attributes: dict[str, str]) -> None:
        if name == f"{_BOOK}item" and attributes.get("media-type", "") in _PAGES:
            parts[attributes.get("id", "")] = attributes.get("href", "")
        elif name == f"{_BOOK}itemref":
            order.append(attributes.get("idref", ""))

    walk_xml(archive.read(_CONTAINER), add_book, ignore, ignore)
    if not books or books[0] not in archive.names:
        raise Unreadable("it does not say which chapters it has")
    walk_xml(archive.read(books[0]), add_part, ignore, ignore)
    folder = posixpath.dirname(books[0])
    places = [
        posixpath.normpath(posixpath.join(folder, unquote(parts[name])))
        for name in dict.fromkeys(order)
        if name in parts
    ]
    return [place for place in places if place in archive.names]


FORMAT = BinaryFormat(
    name="an EPUB book",
    suffixes=(".epub",),
    read=read_epub,
    offsets="the XHTML files of the chapters in reading order, one after another",
    magic=MAGIC,
    contains=b"epub+zip",
)
