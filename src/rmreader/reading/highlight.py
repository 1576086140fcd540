"""Mark the words of many texts that answer a question, and say which of the texts do.

For retrieval pipelines: what a search found comes in, exact words and relevance come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from rmreader.core.checks import check_count, check_question, check_share
from rmreader.core.errors import UserError
from rmreader.reading.answers import Answers
from rmreader.reading.reader import Reader


@dataclass(frozen=True)
class Highlight:
    """One text, with the words of it that answer the question."""

    index: int
    """Its number in the list of texts."""
    text: str
    relevance: float
    """The chance that this text answers the question, from 0 to 1."""
    answers: Answers
    """``text[answer.start:answer.end] == answer.text``; empty where the text does not say."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``; the text itself is left out."""
        return {"index": self.index, "relevance": self.relevance, **self.answers.to_dict()}


@dataclass(frozen=True, eq=False)
class Highlights(Sequence[Highlight]):
    """The texts in the order in which they were given, each with its highlights."""

    texts: tuple[Highlight, ...] = ()

    @property
    def no_answer(self) -> float | None:
        """The chance that none of the texts answers; None where the reader cannot tell.

        It is k / (k + o), with o the best odds of the k texts that have something to read: the
        chance of the text itself for one, and more for many, of which one may look right by chance.
        """
        read = [one for one in self.texts if one.answers.guess is not None]
        if not read:
            return 1.0
        if any(one.answers.no_answer is None for one in read):
            return None
        best = max(one.relevance for one in read)
        # The same as above, written for chances instead of odds.
        nothing = len(read) * (1 - best)
        return nothing / (nothing + best)

    def ranked(self) -> list[Highlight]:
        """The same, the most relevant first; equal ones stay in their order."""
        return sorted(self.texts, key=lambda one: -one.relevance)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``."""
        tree: dict[str, Any] = {"items": [one.to_dict() for one in self.texts]}
        if self.no_answer is not None:
            tree["no_answer"] = self.no_answer
        return tree

    @overload
    def __getitem__(self, place: int) -> Highlight: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Highlight, ...]: ...

    def __getitem__(self, place: int | slice) -> Highlight | tuple[Highlight, ...]:
        return self.texts[place]

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Highlight]:
        return iter(self.texts)


def highlight(
    question: str,
    texts: Sequence[str],
    *,
    reader: str | Path | Reader = "small",
    top: int = 1,
    min_confidence: float = 0.0,
    always: bool = False,
) -> Highlights:
    """Mark the words of each text that answer the question, and say how likely each text does.

    ``reader`` is a name, a folder, or a loaded reader, which is best for more than one call. Each
    text has at most ``top`` answers; one that does not say has none, unless ``always`` is set.

    >>> found = highlight("Who wrote it?", ["It rained.", "Ada wrote the letter."])
    >>> found.ranked()[0].index
    1
    """
    if isinstance(texts, str):
        raise UserError("texts is a list of texts, not one text; write [text] for one.")
    check_question(question)
    check_count("top", top)
    check_share("min_confidence", min_confidence)
    loaded = reader if isinstance(reader, Reader) else Reader.load(reader)
    pairs = [(question, text) for text in texts]
    answers = list(loaded.ask_many(pairs, top=top, always=True))
    return highlights_of(texts, answers, top, min_confidence, always)


def highlights_of(
    texts: Sequence[str],
    answers: Sequence[Answers],
    top: int = 1,
    min_confidence: float = 0.0,
    always: bool = False,
) -> Highlights:
    """Make highlights of answers that take it for granted that each text has one."""
    highlights = []
    for index, (text, found) in enumerate(zip(texts, answers, strict=True)):
        selected = found.select(top, min_confidence, always)
        highlights.append(Highlight(index, text, _relevance(found), selected))
    return Highlights(tuple(highlights))


def _relevance(answers: Answers) -> float:
    """The chance that a text answers; the best confidence where the reader cannot tell."""
    if not answers:
        return 0.0
    if answers.no_answer is None:
        return answers[0].confidence
    return 1 - answers.no_answer
