"""A text that is too long to be read whole: it is indexed, and what fits the question is read.

As ``rmreader ask`` does with such files. The index is in a temporary folder, and gone afterwards.
"""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from rmreader.documents.candidates import Candidates
from rmreader.documents.citations import Citation
from rmreader.documents.index import Entry, Passage
from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.passages import split
from rmreader.documents.shelf import READ, Shelf
from rmreader.documents.sqlite_index import SqliteIndex
from rmreader.reading.answers import Answer, Answers
from rmreader.server.batcher import TELL_EVERY, Batcher
from rmreader.server.schemas import Ask

_AT_ONCE = 500  # passages that are written in one transaction


async def ask_large(batcher: Batcher, ask: Ask) -> AsyncIterator[float | Answers]:
    """Answer one question about a very long text.

    Yields the share that was indexed, again and again, and at last the answers. Where that is not
    waited for, the rest is not indexed.
    """
    stopped = threading.Event()
    shares = [0.0]
    searching = asyncio.create_task(
        asyncio.to_thread(find_passages, ask, shares.append, stopped.is_set)
    )
    try:
        while not searching.done():
            yield shares[-1]
            await asyncio.wait((searching,), timeout=TELL_EVERY)
        passages = searching.result()
        yield 1.0
        yield await _read(batcher, ask, passages)
    finally:
        stopped.set()
        await asyncio.wait((searching,))


def find_passages(
    ask: Ask, tell: Callable[[float], None], is_stopped: Callable[[], bool]
) -> list[Passage]:
    """The passages of a text that fit a question best; none where it is stopped before."""
    builder = ParagraphBuilder()
    builder.add_text(ask.passage)
    spans = list(split(builder.finish()))
    with TemporaryDirectory(prefix="rmreader-") as folder:
        index = SqliteIndex(Path(folder, "text.rmindex"))
        try:
            for begin in range(0, len(spans), _AT_ONCE):
                if is_stopped():
                    return []
                part = spans[begin : begin + _AT_ONCE]
                index.put([Entry(("", f"{begin}"), "", part, "text")])
                tell((begin + len(part)) / len(spans))
            return Shelf(index).search(ask.question, READ)
        finally:
            index.close()


async def _read(batcher: Batcher, ask: Ask, passages: list[Passage]) -> Answers:
    """Read the passages together, and give the answers with their places in the text."""
    can_tell = getattr(batcher.reader, "decision", None) is not None
    candidates = Candidates.of(passages, can_tell)
    read = await batcher.ask([(ask.question, text, ask.top, True) for text in candidates.texts])
    found = candidates.rank(read, ask.top, ask.min_confidence, ask.always)
    found = found.with_needs(ask.question)
    guess = None if found.guess is None else _in_text(found.guess)
    runner_up = None if found.runner_up is None else _in_text(found.runner_up)
    return Answers(
        tuple(_in_text(citation) for citation in found),
        found.no_answer,
        guess,
        found.absent,
        runner_up,
        found.needs,
    )


def _in_text(citation: Citation) -> Answer:
    """An answer with its places in the whole text."""
    answer = citation.answer
    sentence_start, _ = citation.passage.stretch.span(answer.sentence_start, answer.end)
    return dataclasses.replace(
        answer,
        start=citation.start,
        end=citation.end,
        sentence_start=sentence_start,
    )
