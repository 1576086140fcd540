"""Where a part of a passage is in its file, as the file is now: lines of a text, boxes on a page.

An index keeps texts and their places, not files. So a file is read again, and says nothing where it
is gone, or where the passage is no longer what stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rmreader.core.errors import UserError
from rmreader.documents.document import OFFSETS, Box, Document, read_document
from rmreader.documents.index import Passage
from rmreader.documents.places import TextSpan


@dataclass(frozen=True)
class FilePlace:
    """A place in a file; empty where nothing is known of it."""

    lines: tuple[int, int] | None = None
    """The first and the last, from 1, of a text: what an editor counts."""
    boxes: tuple[Box, ...] = ()
    """The rectangles on the pages of a PDF document, one per line."""


NOWHERE = FilePlace()
Read = Callable[[Path], Document | None]


def read_file(path: Path) -> Document | None:
    """A document, read again; None where it cannot be."""
    try:
        return read_document(path)
    except UserError:
        return None


def find_in_file(passage: Passage, start: int, end: int, read: Read = read_file) -> FilePlace:
    """The place of the characters ``start`` to ``end`` of the original that the passage is of."""
    document = read(passage.path)
    if document is None or not _is_still_there(passage.stretch, document.original):
        return FilePlace()
    if document.rectangles:
        return FilePlace(boxes=tuple(document.boxes(start, end)))
    if document.offsets == OFFSETS:
        first = document.original.count("\n", 0, start) + 1
        last = first + document.original.count("\n", start, max(start, end - 1))
        return FilePlace(lines=(first, last))
    return FilePlace()


def _is_still_there(stretch: TextSpan, original: str) -> bool:
    """Whether the original has, at its places, what the passage took from it word for word."""
    for text, origin, length in stretch.pieces():
        if length == len(text) and original[origin : origin + length] != text:
            return False
    return True
