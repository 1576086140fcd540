"""XML in a ZIP archive, as office formats have it: from strangers, so every size is bounded."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from xml.parsers import expat

from rmreader.documents.formats.format import Unreadable

MAGIC = b"PK\x03\x04"
_MOST_BYTES = 64 << 20  # of all parts, unpacked
_LEAST_BYTES = 16 << 20  # that any archive may have, however small it is
_MOST_TIMES = 100  # as many as packed

Start = Callable[[str, dict[str, str]], None]
End = Callable[[str], None]
Text = Callable[[str], None]


class Archive:
    """The parts of an archive that are asked for, as long as they are not too large together."""

    def __init__(self, content: bytes) -> None:
        self._left = min(_MOST_BYTES, max(_LEAST_BYTES, _MOST_TIMES * len(content)))
        self._most = self._left
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGE as error:
            raise Unreadable(_damaged(error)) from None
        self.names = frozenset(self._archive.namelist())

    def read(self, name: str) -> bytes:
        """The content of a part."""
        try:
            with self._archive.open(name) as file:
                content = file.read(self._left + 1)
        except _DAMAGE as error:
            raise Unreadable(_damaged(error)) from None
        self._left -= len(content)
        if self._left < 0:
            raise Unreadable(f"it unfolds to more than {self._most:,} bytes")
        return content


_DAMAGE = (
    zipfile.BadZipFile, zlib.error, LookupError, EOFError, NotImplementedError, RuntimeError,
    OSError, ValueError,
)  # fmt: skip


def _damaged(error: Exception) -> str:
    return f"it is not an archive that can be opened ({' '.join(str(error).split())[:200]})"


def walk_xml(content: bytes, start: Start, end: End, text: Text) -> None:
    """Walk through XML; names are spelled "namespace name". No depth is too deep."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, UnicodeError) as error:
        raise Unreadable(f"it is damaged ({error})") from None


def _refuse_doctype(*_: object) -> None:
    raise Unreadable("it declares a document type, which no such document does")


def ignore(_: str) -> None:
    """Do nothing with a text or the end of an element."""


def relations(content: bytes) -> dict[str, str]:
    """The parts that a part of an office document names by ids."""
    targets: dict[str, str] = {}

    def add(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" Relationship"):
            targets[attributes.get("Id", "")] = attributes.get("Target", "")

    walk_xml(content, add, ignore, ignore)
    return targets
