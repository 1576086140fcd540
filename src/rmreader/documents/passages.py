"""Passages: a file as one text to ask about, several texts as one, a document in parts of the size readers know."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rmreader.documents.document import Document, read_document
from rmreader.documents.places import BETWEEN, Stretch, join
from rmreader.reading.answers import Answer

# Characters: less is put together with what follows, more is cut; a paragraph of SQuAD has 735 on average.
_SMALL, _LARGE = 400, 1500
_SENTENCE = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*\s+|\n")


def read_passage(place: str | Path) -> str:
    """The text of a document of any kind that can be read, ``-`` for standard input."""
    return read_document(place).whole.text


def read_passages(places: Sequence[str]) -> tuple[Passages, list[str]]:
    """Documents as one text to ask about, and what to say on how they were read."""
    documents = [read_document(place) for place in places]
    names = places if len(places) > 1 else [""]  # of one alone it goes without saying
    texts = [document.whole.text for document in documents]
    return Passages(names, texts, documents), [document.note for document in documents if document.note]


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
        return "; ".join(dict.fromkeys(document.offsets for document in self.documents)) or "text"

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
        number = self._number(answer)
        here = self.documents[number].paragraphs if self.documents else ()
        at = self.locate(answer)[1].start
        return here[bisect_right(here, at, key=lambda one: one.runs[0][1]) - 1].page if here else None

    def _number(self, answer: Answer) -> int:
        return bisect_right(self.begins, answer.start) - 1

    def locate(self, answer: Answer) -> tuple[str, Answer]:
        """The name of the text that an answer is in, and the answer with its places in that text."""
        number = self._number(answer)
        begin = self.begins[number]
        start, end = answer.start - begin, answer.end - begin
        sentence_start = answer.sentence_start - begin
        if self.documents:
            whole = self.documents[number].whole
            start, end = whole.span(start, end)
            sentence_start, _ = whole.span(sentence_start, sentence_start + 1)
        here = dataclasses.replace(answer, start=start, end=end, sentence_start=sentence_start)
        return self.names[number], here


def split(paragraphs: Iterable[Stretch]) -> Iterator[Stretch]:
    """A document's passages: short paragraphs of one page and heading together, long ones cut between sentences."""
    waiting: list[Stretch] = []
    size = 0
    for piece in paragraphs:
        other = waiting and (piece.page, piece.heading) != (waiting[-1].page, waiting[-1].heading)
        if waiting and (other or size >= _SMALL or size + len(piece.text) > _LARGE):
            yield join(waiting, waiting[0].page, waiting[0].heading)
            waiting, size = [], 0
        for part in _cut(piece):
            if size and size + len(part.text) > _LARGE:
                yield join(waiting, waiting[0].page, waiting[0].heading)
                waiting, size = [], 0
            waiting.append(part)
            size += len(part.text)
    if waiting:
        yield join(waiting, waiting[0].page, waiting[0].heading)


def _cut(piece: Stretch) -> list[Stretch]:
    """A paragraph as it is, or where it is long as parts of about equal size that end with a sentence, else a word."""
    text = piece.text
    if len(text) <= _LARGE:
        return [piece]
    ends, parts, begin = [match.end() for match in _SENTENCE.finditer(text)], [], 0
    while (left := len(text) - begin) > _LARGE:
        goal = begin + left // -(-left // _LARGE)
        near = [end for end in ends[bisect_right(ends, begin + _SMALL) :][:200] if end <= begin + _LARGE]
        cut = min(near, key=lambda end: abs(end - goal), default=0) or text.rfind(" ", begin + 1, begin + _LARGE) + 1
        cut = cut or begin + _LARGE
        parts.append(piece.cut(begin, cut))
        begin = cut
    return [part for part in [*parts, piece.cut(begin, len(text))] if part.text]
