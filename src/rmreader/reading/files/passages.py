"""Passages: the one reader of text for every command that asks about a text, and several texts as one."""

from __future__ import annotations

import dataclasses
import io
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rmreader.data.tables import foreign
from rmreader.errors import UserError
from rmreader.reading.answering.answers import Answer

OFFSETS = "open(file, encoding='utf-8-sig')"
"""What starts and ends count the characters of: the text that Python reads, without a byte order mark and with every
line end as one \\n. In ``open(file, encoding='utf-8-sig', newline='')`` each \\r\\n before a place adds one to it."""

_BETWEEN = "\n\n"  # two texts that are read as one


def read_passage(place: str | Path) -> str:
    """A passage from a file of UTF-8 text, ``-`` for standard input; ~ is the person's own folder. See ``OFFSETS``."""
    if str(place) == "-" and sys.stdin is None:
        raise UserError("-: standard input is closed; give a file, or the passage through a pipe.")
    try:
        content = sys.stdin.buffer.read() if str(place) == "-" else Path(place).expanduser().read_bytes()
    except OSError as error:
        raise UserError(f"{place}: cannot be read ({error.strerror}); check the path.") from None
    except (RuntimeError, ValueError) as error:  # such as ~nobody, or a NUL in the name
        raise UserError(f"{place}: no such file ({error}); check the path.") from None
    if (kind := foreign(content) or ("binary data" if b"\0" in content else None)) is not None:
        raise UserError(f"{place}: this is {kind}, not plain text; save its text as a UTF-8 file and give that.")
    try:
        text = io.StringIO(content.decode("utf-8-sig"), newline=None).read()
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8 text (at byte {error.start}); save it as UTF-8.") from None
    if not text.strip():
        raise UserError(f"{place}: the passage is empty; give a text to read.")
    return text


@dataclass(frozen=True)
class Passages:
    """One or more texts, read as one: ``text``, in which each begins at its place in ``begins``."""

    names: Sequence[str]
    texts: Sequence[str]

    @property
    def text(self) -> str:
        """All of them."""
        return _BETWEEN.join(self.texts)

    @property
    def begins(self) -> list[int]:
        """Where each begins; from the second on, no answer may reach across."""
        return [0, *accumulate(len(text) + len(_BETWEEN) for text in self.texts[:-1])]

    def locate(self, answer: Answer) -> tuple[str, Answer]:
        """The name of the text that an answer is in, and the answer with its places in that text."""
        number = bisect_right(self.begins, answer.start) - 1
        begin = self.begins[number]
        return self.names[number], dataclasses.replace(answer, start=answer.start - begin, end=answer.end - begin)
