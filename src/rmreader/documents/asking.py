"""Documents at hand are asked: read whole, or indexed first where they are long."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rmreader.core.console import progress
from rmreader.documents.citations import (
    Citation,
    Citations,
    LocatedAnswer,
    LocatedAnswers,
    locate_answers,
    place_all,
)
from rmreader.documents.passages import Passages, split
from rmreader.reading.reader import Reader

if TYPE_CHECKING:
    from rmreader.documents.sqlite_index import SqliteIndex

LARGE = 2_000_000  # characters: to read more for every question takes minutes
_AT_ONCE = 500  # passages that are written in one transaction

Ask = Callable[..., LocatedAnswers]
"""A question and the options of ``Reader.ask``: its answers, with their places in the files."""


def is_large(passages: Passages) -> bool:
    """Whether they are indexed first, so that only what fits a question is read."""
    return bool(passages.documents) and sum(map(len, passages.texts)) > LARGE


@contextmanager
def asking(passages: Passages, reader: Reader) -> Iterator[Ask]:
    """Give what answers questions about some passages; an index of long ones ends with it."""
    if is_large(passages):
        # Most that is asked is short, and starts sooner without these.
        from rmreader.documents.shelf import Shelf
        from rmreader.documents.sqlite_index import SqliteIndex

        with TemporaryDirectory(prefix="rmreader-") as folder:
            index = SqliteIndex(Path(folder, "passages.rmindex"))
            try:
                _fill(index, passages)
                shelf = Shelf(index, reader)
                yield lambda question, **options: _locate(passages, shelf.ask(question, **options))
            finally:
                index.close()
        return
    text = passages.text
    yield lambda question, **options: locate_answers(
        passages, reader.ask(question, text, **options)
    )


def _fill(index: SqliteIndex, passages: Passages) -> None:
    """Index every document, in parts that are named by its number and where they begin."""
    from rmreader.documents.index import Entry

    for number, document in enumerate(passages.documents):
        spans = list(split(document.paragraphs))
        what = f"indexing {passages.names[number]}".rstrip()
        with progress(what, total=len(spans), unit="passages", lines=True) as advance:
            for begin in range(0, len(spans), _AT_ONCE):
                part = spans[begin : begin + _AT_ONCE]
                index.put([Entry(("", f"{number}/{begin}"), "", part, document.offsets)])
                advance(len(part))


def _locate(passages: Passages, citations: Citations) -> LocatedAnswers:
    """Answers out of the index, with their places in the files."""

    def locate(citation: Citation) -> LocatedAnswer:
        number = int(citation.file.partition("/")[0])
        answer = citation.answer
        span = citation.passage.stretch
        sentence_start, _ = span.span(answer.sentence_start, answer.end)
        original = dataclasses.replace(
            answer,
            start=citation.start,
            end=citation.end,
            sentence_start=sentence_start,
        )
        boxes = tuple(passages.documents[number].boxes(citation.start, citation.end))
        return LocatedAnswer(answer, original, passages.names[number], span.page, boxes)

    return place_all(citations, locate)
