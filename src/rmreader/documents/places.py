"""A text without its markup that knows where each of its characters is in the original."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

T = TypeVar("T")

Run = tuple[int, int, int]
"""(at, origin, length): the text from ``at`` on is the original from ``origin`` on.

Where the text up to the next run has ``length`` characters, the two are the same, character for
character. Otherwise one stands for the other as a whole, as & for ``&amp;`` and a blank for a line
end with an indent. A length of 0 is text that the original does not have.
"""

BETWEEN = "\n\n"  # between two texts that are read as one
LABEL = ": "  # after a column name that is repeated before a cell; the original does not have it


class LazySequence(Sequence[T]):
    """A sequence whose items are made when they are asked for, by ``at``."""

    def at(self, number: int) -> T:
        """The item of this number, which is from 0 to the length less one."""
        raise NotImplementedError

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> list[T]: ...

    def __getitem__(self, number: int | slice) -> T | list[T]:
        if isinstance(number, slice):
            return [self.at(k) for k in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.at(number)


class Runs(LazySequence[Run]):
    """Runs in one flat array, which takes a tenth of the memory of a tuple of tuples."""

    __slots__ = ("numbers",)

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self.numbers = array("q")
        for run in runs:
            self.numbers.extend(run)

    @classmethod
    def from_numbers(cls, numbers: array[int]) -> Runs:
        """Runs that are a flat array already."""
        runs = cls()
        runs.numbers = numbers
        return runs

    def __len__(self) -> int:
        return len(self.numbers) // 3

    def at(self, number: int) -> Run:
        """The run of this number."""
        at, origin, length = self.numbers[3 * number : 3 * number + 3]
        return at, origin, length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Runs({list(self)})"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of a document: a paragraph, later a passage."""

    text: str
    runs: Sequence[Run]
    page: int | None = None
    heading: str = ""

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[tuple[str, int, int]]:
        """The runs of ``text[start:end]``, as ``SpanBuilder.add`` takes them."""
        end = len(self.text) if end is None else end
        number = self._run_at(start)
        while number < len(self.runs) and self.runs[number][0] < end:
            at, origin, length = self.runs[number]
            after = self._end_of(number)
            low = max(at, start)
            high = min(after, end)
            if length == after - at:
                yield self.text[low:high], origin + low - at, high - low
            else:
                yield self.text[low:high], origin, length
            number += 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where ``text[start:end]``, of at least one character, is in the original."""
        start, end = self.trim(start, end)
        return self._place(start)[0], self._place(end - 1)[1]

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """Leave out column names at the edges, which stand elsewhere in the original.

        A part that is nothing but column names stays as it is.
        """
        if len(self.runs) < 3:  # a name, what follows it, and a cell
            return start, end
        first = self._run_at(start)
        last = self._run_at(end - 1)
        low, high = start, end
        if self._is_label(first):
            low = self._end_of(first + 1)
        elif self._is_separator(first):
            low = self._end_of(first)
        if self._is_separator(last):
            last -= 1
        if self._is_label(last):
            high = self._begin_of(last - 1) if last else 0
        return (low, high) if low < high else (start, end)

    def cut(self, start: int, end: int) -> TextSpan:
        """The part ``text[start:end]``, without the space around it."""
        text = self.text[start:end]
        start += len(text) - len(text.lstrip())
        end -= len(text) - len(text.rstrip())
        builder = SpanBuilder()
        for piece in self.pieces(start, end):
            builder.add(*piece)
        return builder.take(self.page, self.heading)

    def _is_label(self, number: int) -> bool:
        return number + 1 < len(self.runs) and self._is_separator(number + 1)

    def _is_separator(self, number: int) -> bool:
        """Whether a run is what stands between a column name and its cell."""
        at, _, length = self.runs[number]
        return length == 0 and self.text[at : self._end_of(number)] == LABEL

    def _place(self, character: int) -> tuple[int, int]:
        number = self._run_at(character)
        at, origin, length = self.runs[number]
        if length == self._end_of(number) - at:
            return origin + character - at, origin + character - at + 1
        return origin, origin + length

    def _run_at(self, character: int) -> int:
        if len(self.runs) == 1:
            return 0
        return max(0, bisect_right(self.runs, character, key=lambda run: run[0]) - 1)

    def _begin_of(self, number: int) -> int:
        return self.runs[number][0]

    def _end_of(self, number: int) -> int:
        return self.runs[number + 1][0] if number + 1 < len(self.runs) else len(self.text)


class SpanBuilder:
    """Builds a span piece by piece."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._runs = Runs()
        self.size = 0

    def add(self, text: str, origin: int, length: int | None = None) -> None:
        """Add a piece that is at ``origin``, where it has a ``length`` if not that of the text."""
        if not text:
            return
        length = len(text) if length is None else length
        numbers = self._runs.numbers
        if numbers and length == len(text) and self._continues(origin):
            numbers[-1] += length
        else:
            numbers.extend((self.size, origin, length))
        self._parts.append(text)
        self.size += len(text)

    def _continues(self, origin: int) -> bool:
        """Whether ``origin`` follows the last run, and that one is equal to its original."""
        at, before, length = self._runs[-1]
        return length == self.size - at and before + length == origin

    def add_span(self, span: TextSpan) -> None:
        """Add all of a span."""
        for piece in span.pieces():
            self.add(*piece)

    def ends_with(self, marks: str) -> bool:
        """Whether the last character is one of these."""
        return bool(self._parts) and self._parts[-1][-1] in marks

    def take(self, page: int | None = None, heading: str = "") -> TextSpan:
        """What was built; the next piece begins another span."""
        span = TextSpan("".join(self._parts), self._runs, page, heading)
        self._parts = []
        self._runs = Runs()
        self.size = 0
        return span


def join(spans: Iterable[TextSpan], page: int | None = None, heading: str = "") -> TextSpan:
    """Several spans as one, in order, with a blank line between two for what lies there."""
    builder = SpanBuilder()
    end = 0
    for span in spans:
        first, last = span.span(0, len(span.text))
        if builder.size:
            builder.add(BETWEEN, end, max(0, first - end))
        builder.add_span(span)
        end = last
    return builder.take(page, heading)
