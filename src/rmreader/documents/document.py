"""A file of any format that can be read, as a document; anything else is named and refused.

The suffix says the format, and the content must be of that format: a PDF document called x.txt is
refused, not guessed at.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rmreader.core.errors import UserError
from rmreader.documents.formats import format_of
from rmreader.documents.formats.format import BinaryFormat
from rmreader.documents.parse import (
    LARGEST,
    NO_TEXT,
    OFFSETS,
    Box,
    Document,
    ReadLater,
    check_package,
    parse,
)
from rmreader.documents.sandbox import SECONDS, sandbox

__all__ = [
    "LARGEST",
    "NO_TEXT",
    "OFFSETS",
    "Box",
    "Document",
    "ReadLater",
    "read_document",
]

_SMALL = 1 << 20  # bytes of a text that is read in this process


def read_document(
    place: str | Path,
    content: bytes | None = None,
    seconds: float = SECONDS,
    patience: float = 1,
) -> Document:
    """Read a file (``-`` is standard input, ~ the home folder), or the ``content`` of one.

    Binary formats and large texts are read by a process of their own, which has ``seconds``, by the
    clock ``patience`` times as many: see ``Sandbox.parse``.
    """
    name = str(place)
    content = _read_bytes(name) if content is None else content
    if len(content) > LARGEST:
        raise UserError(f"{name}: more than {LARGEST:,} bytes; split it.")
    check_package(name)
    if isinstance(format_of(name), BinaryFormat) or len(content) > _SMALL:
        return sandbox.parse(name, content, seconds, patience)
    return parse(name, content)


def _read_bytes(name: str) -> bytes:
    """The content of a file or of standard input, of at most ``LARGEST`` bytes."""
    if name == "-":
        if sys.stdin is None:
            raise UserError(
                "-: standard input is closed; give a file, or the passage through a pipe."
            )
        return sys.stdin.buffer.read(LARGEST + 1)
    try:
        with Path(name).expanduser().open("rb") as file:
            return file.read(LARGEST + 1)
    except IsADirectoryError:
        raise UserError(
            f"{name}: a folder; make an index of it and ask that: rmreader index {name}."
        ) from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror}); check the path.") from None
    except (RuntimeError, ValueError) as error:  # such as ~nobody, or a NUL in the name
        raise UserError(f"{name}: no such file ({error}); check the path.") from None
