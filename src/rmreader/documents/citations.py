"""Answers with their places in documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from rmreader.core.console import one_line
from rmreader.documents.in_file import NOWHERE, FilePlace, Read, find_in_file, read_file
from rmreader.documents.index import Passage
from rmreader.documents.parse import Box
from rmreader.documents.passages import Passages, trim
from rmreader.reading.answers import A, Answer, Answers, RankedAnswers
from rmreader.reading.needs import what_it_needs


@dataclass(frozen=True)
class _PlacedAnswer:
    """An answer, and more that is known of where it is."""

    answer: Answer

    @property
    def text(self) -> str:
        """The answer."""
        return self.answer.text

    @property
    def confidence(self) -> float:
        """The F1 to expect of it."""
        return self.answer.confidence


@dataclass(frozen=True)
class LocatedAnswer(_PlacedAnswer):
    """An answer out of files that were read as one text; ``answer`` has its places in that text."""

    original: Answer
    """With its places in its own file."""
    file: str
    """Empty where there is one text only."""
    page: int | None
    boxes: tuple[Box, ...] = ()
    """The rectangles that it takes up on the page of a PDF document."""

    @property
    def place(self) -> str:
        """File and page, for a person."""
        page = f"page {self.page}" if self.page else ""
        return ", ".join(part for part in (self.file, page) if part)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``."""
        tree = self.original.to_dict()
        if self.file:
            tree["file"] = self.file
        if self.page:
            tree["page"] = self.page
        if self.boxes:
            tree["boxes"] = [box._asdict() for box in self.boxes]
        return tree


class LocatedAnswers(RankedAnswers[LocatedAnswer]):
    """The answers to one question, each with its place in its file."""


def place_all(answers: RankedAnswers[A], locate: Callable[[A], LocatedAnswer]) -> LocatedAnswers:
    """All that was found for a question, each answer with the place that ``locate`` gives it."""
    guess = answers.guess
    runner_up = answers.runner_up
    return LocatedAnswers(
        answers=tuple(locate(answer) for answer in answers),
        no_answer=answers.no_answer,
        guess=None if guess is None else locate(guess),
        absent=answers.absent,
        runner_up=None if runner_up is None else locate(runner_up),
        needs=answers.needs,
    )


def locate_answers(passages: Passages, answers: Answers) -> LocatedAnswers:
    """The answers that a reader found in ``passages.text``, with their places in the files."""

    def locate(answer: Answer) -> LocatedAnswer:
        answer = passages.trim(answer)
        file, original = passages.locate(answer)
        boxes = tuple(passages.boxes(answer))
        return LocatedAnswer(answer, original, file, passages.page(answer), boxes)

    return place_all(answers, locate)


@dataclass(frozen=True)
class Citation(_PlacedAnswer):
    """An answer and where it is: characters ``start`` to ``end`` of the file's original, as
    ``offsets`` counts them.

    ``answer`` has its places in the passage, and the confidence among all passages, that it may be
    in none of the documents counted in.
    """

    passage: Passage
    start: int
    end: int
    in_file: FilePlace = NOWHERE
    """Lines, or boxes on a page, where they were looked up: see ``Citations.locate``."""

    @classmethod
    def of(cls, answer: Answer, passage: Passage) -> Citation:
        """An answer that a reader found in a passage of an index."""
        answer = trim(answer, passage.stretch)
        start, end = passage.stretch.span(answer.start, answer.end)
        return cls(answer, passage, start, end)

    @property
    def sentence(self) -> str:
        """The sentence around it."""
        return self.answer.sentence

    @property
    def file(self) -> str:
        """The path of the document in the folder that was indexed."""
        return self.passage.file

    @property
    def place(self) -> str:
        """File, page or line, and heading, for a person."""
        where = f"page {self.passage.stretch.page}" if self.passage.stretch.page else ""
        if self.in_file.lines is not None:
            where = f"line {self.in_file.lines[0]}"
        return ", ".join(part for part in (self.file, where, self.passage.stretch.heading) if part)

    def locate(self, read: Read = read_file) -> Citation:
        """The same with its lines, or its boxes on a page, if its file still has it."""
        found = find_in_file(self.passage, self.start, self.end, read)
        return replace(self, in_file=found)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``.

        ``start`` and ``end`` are in the document's original, those of ``passage`` in the passage's
        text. ``root`` is the folder that was indexed; ``document`` is the same as ``file``.
        """
        stretch = self.passage.stretch
        tree = {
            "text": self.text,
            "score": self.answer.score,
            "confidence": self.confidence,
            "sentence": self.sentence,
            "root": self.passage.root,
            "file": self.file,
            "document": self.file,
            "page": stretch.page,
            "heading": stretch.heading,
            "start": self.start,
            "end": self.end,
            "offsets": self.passage.offsets,
            "passage": {
                "id": self.passage.id,
                "text": self.passage.text,
                "start": self.answer.start,
                "end": self.answer.end,
                "sentence_start": self.answer.sentence_start,
            },
        }
        if self.in_file.lines is not None:
            tree["lines"] = list(self.in_file.lines)
        if self.in_file.boxes:
            tree["boxes"] = [box._asdict() for box in self.in_file.boxes]
        return tree


class Citations(RankedAnswers[Citation]):
    """Different answers to one question, best first; empty where the documents do not say."""

    where: ClassVar[str] = "these documents"
    nothing_read: ClassVar[str] = "not in these documents  (no passage has a word of the question)"

    def locate(self) -> Citations:
        """The same answers with their lines or boxes; every file is read once."""
        read = cache(read_file)
        return Citations(
            answers=tuple(citation.locate(read) for citation in self.answers),
            no_answer=self.no_answer,
            guess=None if self.guess is None else self.guess.locate(read),
            absent=self.absent,
            runner_up=None if self.runner_up is None else self.runner_up.locate(read),
            needs=self.needs,
        )

    def with_needs(self, question: str) -> Citations:
        """The same, saying what the nearest passage would need to answer the question."""
        if not self.refuses or self.guess is None:
            return self
        needs = what_it_needs(question, self.guess.passage.text, "the nearest passage")
        return replace(self, needs=needs)

    def describe_guess(self, guess: Citation) -> str:
        """The best guess and its file, on one line."""
        return f"{one_line(guess.text)}, in {one_line(guess.file)}"
