"""Plain text: what any file is that has no other suffix."""

from __future__ import annotations

from rmreader.documents.formats.format import TextFormat
from rmreader.documents.paragraphs import ParagraphBuilder


def read_text(text: str, out: ParagraphBuilder) -> None:
    """Add the paragraphs of a plain text."""
    out.add_text(text)


FORMAT = TextFormat("plain text", (".txt", ".text"), read_text, is_plain=True)
