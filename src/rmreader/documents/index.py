"""An index of passages: what goes in, what comes out, and what every engine of one can do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from rmreader.documents.embedding import Vectors, shipped_encoder
from rmreader.documents.places import Run, TextSpan

Name = tuple[str, str]
"""A document: the folder that was indexed, and the path in it."""


@dataclass(frozen=True)
class Entry:
    """A document as it goes into an index; without passages if it was refused."""

    name: Name
    checksum: str
    """Of the file's content; empty if the next run should try it again."""
    passages: Sequence[TextSpan] = ()
    offsets: str = ""
    note: str = ""
    """What a person should know about how it was read."""
    refusal: str = ""
    """Why it was not read."""
    vectors: Vectors | None = None
    """Of the passages; an index that needs them makes them itself where they are not given."""


@dataclass(frozen=True)
class Known:
    """What an index knows of a document without its passages."""

    checksum: str
    refusal: str = ""


@dataclass(frozen=True)
class ListedDocument:
    """A document that can be asked, in a list of them."""

    file: str
    """The path in the folder that was indexed, with /."""
    passages: int
    note: str = ""
    """What a person should know about how it was read."""


@dataclass(frozen=True)
class Passage:
    """A passage of a document, as a search gives it."""

    id: str
    """It ends in a number, which is one more for the next passage of the document."""
    root: str
    """The folder that was indexed, where it was then."""
    file: str
    """The path in that folder, with /."""
    stretch: TextSpan
    offsets: str
    """The text that places in the original count in."""
    score: float = 0.0
    """Of the search: more is better, comparable between the passages of one question."""

    @property
    def text(self) -> str:
        """What the reader reads."""
        return self.stretch.text

    @property
    def path(self) -> Path:
        """The file, where it was when it was indexed."""
        return Path(self.root, self.file)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``; where the document is on the disk stays here."""
        start, end = self.stretch.span(0, len(self.text))
        return {
            "id": self.id,
            "text": self.text,
            "score": self.score,
            "document": self.file,
            "page": self.stretch.page,
            "heading": self.stretch.heading,
            "start": start,
            "end": end,
            "offsets": self.offsets,
        }


class Index(Protocol):
    """What holds passages and finds those for a question; another engine is another class."""

    def search(self, question: str, count: int) -> list[Passage]:
        """The passages that fit a question best, best first."""

    def document(self, root: str, file: str) -> list[Passage]:
        """All passages of one document, in order."""

    def around(self, id: str, count: int) -> list[Passage]:
        """A passage with up to ``count`` of its document on either side, in order.

        There is none for an unknown id.
        """

    def known(self, root: str) -> dict[str, Known]:
        """Every document of a folder, by its path in it."""

    def put(self, entries: Sequence[Entry], gone: Sequence[Name] = ()) -> None:
        """Put documents in, each in place of what had its name, and take the ``gone`` out.

        All of it is done, or nothing.
        """

    def size(self) -> int:
        """How many documents can be asked."""

    def checksum(self, name: Name) -> str:
        """Of a document's content when it was indexed; empty for an unknown one."""

    def list_documents(self, count: int) -> list[ListedDocument]:
        """The first ``count`` documents that can be asked, by their paths."""


_MOST_WORDS = 100  # of a question, to search by
_COMMON = """
a about after all also am an and any are as at be been before being between both but by can could
did do does during each for from had has have he her him his how i if in into is it its many me
more most much my no nor not of off on one or other our out over she should so some such than that
the their them then there these they this those through to under until up very was we were what
when where which while who whom whose why will with would you your
"""
_STOP = frozenset(_COMMON.split())


def content_words(question: str) -> list[str]:
    """The words of a question to search by: all but the most common, unless it has no others."""
    words = list(dict.fromkeys(re.findall(r"\w+", question.lower())))[:_MOST_WORDS]
    return [word for word in words if word not in _STOP] or words


@lru_cache
def about(name: Name, heading: str) -> str:
    """What is known of a passage beside its text: the file's name and the headings, as words."""
    return re.sub(r"[\W_]+", " ", f"{PurePosixPath(name[1]).with_suffix('')} {heading}")


def encode_passages(name: Name, passages: Sequence[TextSpan]) -> Vectors:
    """The vectors of a document's passages, their headings and the file's name counted in."""
    texts = [f"{about(name, passage.heading)} {passage.text}" for passage in passages]
    return shipped_encoder().encode_texts(texts)


def best_passages(
    passages: Sequence[Passage], scores: Sequence[float], count: int
) -> list[Passage]:
    """The passages with these scores, best first; those that do not fit at all are left out."""
    scored: list[Passage] = []
    for passage, score in zip(passages, scores, strict=True):
        if score > 0:
            scored.append(replace(passage, score=score))
    # Of equal ones the earlier is first, in every run.
    scored.sort(key=lambda passage: (-passage.score, len(passage.id), passage.id))
    return scored[:count]


def runs_to_json(runs: Sequence[Run]) -> str:
    """Runs as an index keeps them."""
    return json.dumps(list(runs), separators=(",", ":"))


def runs_from_json(written: str, text: str) -> tuple[Run, ...]:
    """Runs as an index keeps them; ``ValueError`` if they are not the runs of this text."""
    runs: list[Run] = []
    for at, origin, length in json.loads(written):
        for number in (at, origin, length):
            if type(number) is not int or not 0 <= number < 1 << 40:
                raise ValueError("a place is not a number of characters")
        if runs and at <= runs[-1][0]:
            raise ValueError("places out of order")
        runs.append((at, origin, length))
    if not runs or runs[0][0] != 0 or runs[-1][0] >= max(1, len(text)):
        raise ValueError("places outside the text")
    return tuple(runs)
