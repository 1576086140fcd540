"""A text without its markup that knows where each of its characters is in the original."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Run = tuple[int, int, int]
"""From character ``at`` of the text on, it is the original from ``origin`` on, for ``length`` characters of that. Where
the text until the next run is as long it is the same, character for character; else one stands for the other as a
whole, as & for ``&amp;`` and a blank for a line end and an indent."""

BETWEEN = "\n\n"  # two texts that are read as one


@dataclass(frozen=True)
class Stretch:
    """A piece of a document: a paragraph, later a passage."""

    text: str
    runs: tuple[Run, ...]
    page: int | None = None
    heading: str = ""

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[tuple[str, int, int]]:
        """The runs of ``text[start:end]``, as ``Maker.add`` takes them."""
        end = len(self.text) if end is None else end
        number = self._run(start)
        while number < len(self.runs) and self.runs[number][0] < end:
            at, origin, length = self.runs[number]
            after = self._after(number)
            low, high = max(at, start), min(after, end)
            same = length == after - at
            yield self.text[low:high], origin + (low - at if same else 0), high - low if same else length
            number += 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where ``text[start:end]``, of at least one character, is in the original."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, character: int) -> tuple[int, int]:
        number = self._run(character)
        at, origin, length = self.runs[number]
        if length == self._after(number) - at:
            return origin + character - at, origin + character - at + 1
        return origin, origin + length

    def _run(self, character: int) -> int:
        return max(0, bisect_right(self.runs, character, key=lambda run: run[0]) - 1)

    def _after(self, number: int) -> int:
        return self.runs[number + 1][0] if number + 1 < len(self.runs) else len(self.text)

    def cut(self, start: int, end: int) -> Stretch:
        """The part ``text[start:end]``, without the space around it."""
        text = self.text[start:end]
        start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
        maker = Maker()
        for one in self.pieces(start, end):
            maker.add(*one)
        return maker.take(self.page, self.heading)


class Maker:
    """A stretch while it is being made, piece by piece."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.runs: list[Run] = []
        self.size = 0

    def add(self, text: str, origin: int, length: int | None = None) -> None:
        """A piece, and where it is in the original; ``length`` there is its own where it is the same."""
        if not text:
            return
        run = (self.size, origin, len(text) if length is None else length)
        if self.runs and run[2] == len(text):
            at, before, long = self.runs[-1]
            if long == self.size - at and before + long == origin:  # goes on where the last run ended
                self.runs.pop()
                run = (at, before, long + run[2])
        self.runs.append(run)
        self.parts.append(text)
        self.size += len(text)

    def take(self, page: int | None = None, heading: str = "") -> Stretch:
        """What was made; the next piece begins another."""
        made = Stretch("".join(self.parts), tuple(self.runs), page, heading)
        self.parts, self.runs, self.size = [], [], 0
        return made


def join(pieces: Sequence[Stretch], page: int | None = None, heading: str = "") -> Stretch:
    """Several as one, in their order, a blank line between two, which stands for whatever lies there."""
    maker, last = Maker(), 0
    for number, piece in enumerate(pieces):
        if number:
            maker.add(BETWEEN, last, max(0, piece.runs[0][1] - last))
        for one in piece.pieces():
            maker.add(*one)
        last = piece.span(0, len(piece.text))[1]
    return maker.take(page, heading)


_BLANK = re.compile(r"\n\s*\n")
_LONG = 300  # characters of a line that is a paragraph by itself


def paragraphs(text: str, page: int | None = None, heading: str = "", offset: int = 0) -> Iterator[Stretch]:
    """The paragraphs of a plain text: what blank lines part, and, where lines are as long as paragraphs, every line.

    ``offset`` is where the text begins in the original."""
    at = 0
    for end, after in [*(match.span() for match in _BLANK.finditer(text)), (len(text), len(text))]:
        block = text[at:end]
        lines = block.split("\n")
        for part in lines if max(map(len, lines)) > _LONG else [block]:
            if bare := part.strip():
                origin = offset + at + part.index(bare)
                yield Stretch(bare, ((0, origin, len(bare)),), page, heading)
            at += len(part) + 1
        at = after
