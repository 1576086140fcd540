"""What a format is: one of these per file in this folder, called ``FORMAT``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rmreader.documents.paragraphs import DocumentBuilder, ParagraphBuilder


class Unreadable(ValueError):
    """Why a document cannot be read; the words follow the name of the file."""


@dataclass(frozen=True)
class TextFormat:
    """A format whose files are text: places count the characters of the file itself."""

    name: str
    """As sentences have it: "a Markdown text"."""
    suffixes: tuple[str, ...]
    read: Callable[[str, ParagraphBuilder], None]
    """Adds the paragraphs of a text, in time and memory linear in its length."""
    is_plain: bool = False
    """Whether the text has no markup, so that it can be read as it is."""
    declares_charset: bool = False
    """Whether the text can say its own encoding, as an HTML page does."""


@dataclass(frozen=True)
class BinaryFormat:
    """A format that is packed or binary: it is read in a process of its own, which can be ended."""

    name: str
    """As sentences have it: "a Word document (.docx)"."""
    suffixes: tuple[str, ...]
    read: Callable[[bytes, DocumentBuilder], None]
    """Writes the text and its paragraphs; raises ``Unreadable`` where it cannot."""
    offsets: str
    """What places count the characters of, in words."""
    magic: bytes = b""
    """How every such file begins; empty where there is no such mark."""
    contains: bytes = b""
    """What a ZIP archive of this format has in it."""
    package: str = ""
    """The package that reads it, where the standard library cannot."""
    extra: str = ""
    """The extra of rmreader that installs the package."""

    def matches(self, content: bytes) -> bool:
        """Whether the content is of this format, as far as its first bytes say."""
        return content.startswith(self.magic) and self.contains in content


Format = TextFormat | BinaryFormat
