"""Passages: files as one text to ask about, and a document in parts of the size readers know."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from rmreader.documents.document import Box, Document, read_document
from rmreader.documents.paragraphs import TRAIL, heading_of
from rmreader.documents.places import BETWEEN, TextSpan, join
from rmreader.reading.answers import Answer

# Characters: less is put together with what follows, more is cut. A paragraph of SQuAD has 735.
_SMALL = 400
_LARGE = 1500
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*\s+|\n")


def read_passage(place: str | Path) -> str:
    """The text of a document of any format that can be read, ``-`` for standard input."""
    return read_document(place).whole.text


def read_passages(places: Sequence[str]) -> tuple[Passages, list[str]]:
    """Documents as one text to ask about, and what to say on how they were read."""
    documents = [read_document(place) for place in places]
    names = places if len(places) > 1 else [""]  # one alone needs no name
    texts = [document.whole.text for document in documents]
    notes = [document.note for document in documents if document.note]
    return Passages(names, texts, documents), notes


@dataclass(frozen=True)
class Passages:
    """One or more texts, read as one: ``text``, in which each begins at its place in ``begins``."""

    names: Sequence[str]
    texts: Sequence[str]
    documents: Sequence[Document] = ()
    """What they are the texts of; answers then have their places in the originals."""

    @property
    def offsets(self) -> str:
        """What starts and ends count the characters of."""
        different = dict.fromkeys(document.offsets for document in self.documents)
        return "; ".join(different) or "text"

    @property
    def text(self) -> str:
        """All of them."""
        return BETWEEN.join(self.texts)

    @property
    def begins(self) -> list[int]:
        """Where each begins; from the second on, no answer may reach across."""
        return [0, *accumulate(len(text) + len(BETWEEN) for text in self.texts[:-1])]

    def page(self, answer: Answer) -> int | None:
        """The page that an answer is on, of a document that has pages."""
        if not self.documents:
            return None
        paragraphs = self.documents[self._number(answer)].paragraphs
        place = self.locate(answer)[1].start
        number = bisect_right(paragraphs, place, key=_first_place) - 1
        return paragraphs[max(0, number)].page

    def boxes(self, answer: Answer) -> list[Box]:
        """The rectangles that an answer takes up on its page, of a PDF document."""
        if not self.documents:
            return []
        located = self.locate(answer)[1]
        return self.documents[self._number(answer)].boxes(located.start, located.end)

    def trim(self, answer: Answer) -> Answer:
        """The answer without column names at its edges, which are elsewhere in a table."""
        if not self.documents:
            return answer
        number = self._number(answer)
        return trim(answer, self._wholes[number], self.begins[number])

    def locate(self, answer: Answer) -> tuple[str, Answer]:
        """The name of the text that an answer is in, and the answer with its places there."""
        answer = self.trim(answer)
        number = self._number(answer)
        begin = self.begins[number]
        start = answer.start - begin
        end = answer.end - begin
        sentence_start = answer.sentence_start - begin
        if self.documents:
            whole = self._wholes[number]
            sentence_start, _ = whole.span(sentence_start, end)
            start, end = whole.span(start, end)
        here = dataclasses.replace(
            answer,
            start=start,
            end=end,
            sentence_start=sentence_start,
        )
        return self.names[number], here

    @cached_property
    def _wholes(self) -> list[TextSpan]:
        return [document.whole for document in self.documents]

    def _number(self, answer: Answer) -> int:
        return bisect_right(self.begins, answer.start) - 1


def trim(answer: Answer, span: TextSpan, begin: int = 0) -> Answer:
    """An answer in a span that begins at ``begin``, without column names at its edges."""
    start, end = span.trim(answer.start - begin, answer.end - begin)
    start += begin
    end += begin
    text = answer.text[start - answer.start : end - answer.start]
    return dataclasses.replace(answer, text=text, start=start, end=end)


def _first_place(span: TextSpan) -> int:
    return span.span(0, len(span.text))[0]


def split(paragraphs: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """A document's passages: short paragraphs of one page and heading together, long ones cut.

    A heading goes with what is below it, also where that begins with a heading of its own: alone it
    answers nothing, and a search that asks for its words would put it first.
    """
    waiting: list[TextSpan] = []
    size = 0
    for paragraph in paragraphs:
        is_full = size >= _SMALL or size + len(paragraph.text) > _LARGE
        if waiting and (is_full or not _go_together(waiting[-1], paragraph)):
            yield _joined(waiting)
            waiting = []
            size = 0
        for part in _cut(paragraph):
            if size and size + len(part.text) > _LARGE:
                yield _joined(waiting)
                waiting = []
                size = 0
            waiting.append(part)
            size += len(part.text)
    if waiting:
        yield _joined(waiting)


def _joined(spans: Sequence[TextSpan]) -> TextSpan:
    """Spans of one section as one; the headings above it may come first."""
    last = spans[-1]
    return join(spans, last.page, last.heading)


def _go_together(first: TextSpan, second: TextSpan) -> bool:
    """Whether two paragraphs are of one section, or the first is a heading above the second."""
    if first.page != second.page:
        return False
    if first.heading == second.heading:
        return True
    return _is_heading(first) and second.heading.startswith(first.heading + TRAIL)


def _is_heading(span: TextSpan) -> bool:
    return bool(span.heading) and span.heading.rpartition(TRAIL)[2] == heading_of(span.text)


def _cut(paragraph: TextSpan) -> Iterator[TextSpan]:
    """A paragraph as it is; a long one in parts of about equal size, each of whole sentences."""
    text = paragraph.text
    if len(text) <= _LARGE:
        yield paragraph
        return
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    begin = 0
    while len(text) - begin > _LARGE:
        end = _end_of_part(text, begin, ends)
        part = paragraph.cut(begin, end)
        if part.text:
            yield part
        begin = end
    part = paragraph.cut(begin, len(text))
    if part.text:
        yield part


def _end_of_part(text: str, begin: int, ends: Sequence[int]) -> int:
    """Where a part that begins here ends: with a sentence, else with a word, else anywhere."""
    left = len(text) - begin
    parts = -(-left // _LARGE)
    goal = begin + left // parts
    first = bisect_right(ends, begin + _SMALL)
    last = bisect_right(ends, begin + _LARGE)
    if first < last:
        near = bisect_left(ends, goal, first, last)
        candidates = ends[max(first, near - 1) : min(last, near + 1)]
        return min(candidates, key=lambda end: abs(end - goal))
    blank = text.rfind(" ", begin + 1, begin + _LARGE)
    return blank + 1 if blank > 0 else begin + _LARGE
