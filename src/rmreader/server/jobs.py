"""What waits to be read: a question, or a question whose attention is wanted."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rmreader.reading.explanation import Explanation
from rmreader.reading.reader import Reader
from rmreader.server.cost import window_cost

SLICE = 2_000  # tokens that one client may have read before the others have their turn


@dataclass(slots=True, eq=False, kw_only=True)
class ReadingJob(ABC):
    """Something to read, and the future that its asker awaits."""

    question: str
    passage: str
    size: int
    """Tokens left to read; 0: skipped."""
    future: asyncio.Future[Any]
    client: str = ""
    call: int = 0
    """The same for all questions of a list."""
    turn: int = 0
    """The round in which it is read, or its next part."""
    parts: Iterator[Any] | None = None
    """Its reading by itself, once begun."""

    @property
    @abstractmethod
    def alone(self) -> bool:
        """Whether it is read by itself, part by part."""

    @property
    @abstractmethod
    def slice(self) -> int:
        """Tokens of it that are read in one turn."""

    @property
    @abstractmethod
    def delay(self) -> int:
        """Tokens that it waits for beyond those of its client."""

    @property
    @abstractmethod
    def excess(self) -> int:
        """Tokens by which its turns are longer than they should be."""

    @abstractmethod
    def begin(self, reader: Reader) -> Iterator[Any]:
        """Read it by itself: yield None after each part but the last, and then the result."""


@dataclass(slots=True, eq=False, kw_only=True)
class QuestionJob(ReadingJob):
    """A question whose answers are wanted."""

    top: int = 1
    always: bool = False
    """Give answers even where the reader decides that there is none."""

    @property
    def alone(self) -> bool:
        """Whether the passage is too long for one turn."""
        return self.parts is not None or self.size > SLICE

    @property
    def slice(self) -> int:
        """Tokens of one turn: at least one window, which a long question makes long."""
        longest = SLICE
        if self.parts is not None:
            longest = max(SLICE, window_cost(self.question))
        return min(self.size, longest)

    @property
    def delay(self) -> int:
        """Nothing: its turn is short."""
        return 0

    @property
    def excess(self) -> int:
        """What a window with a long question costs beyond a turn."""
        return max(0, self.slice - SLICE)

    def begin(self, reader: Reader) -> Iterator[Any]:
        """Read a long passage a few windows at a time."""
        windows = max(1, SLICE // window_cost(self.question))
        yield from reader.ask_in_parts(
            self.question, self.passage, top=self.top, always=self.always, portions=windows
        )


@dataclass(slots=True, eq=False, kw_only=True)
class ExplanationJob(ReadingJob):
    """A question whose attention is wanted."""

    write: Callable[[Explanation], Any]
    """Turns the explanation into the result, in the worker thread."""

    @property
    def alone(self) -> bool:
        """Always."""
        return True

    @property
    def slice(self) -> int:
        """Half of it: reading, and then writing, which takes as long."""
        return -(-self.size // 2)

    @property
    def delay(self) -> int:
        """All of it: since it cannot be cut into turns, it waits as long as they would take."""
        return self.size

    @property
    def excess(self) -> int:
        """Nothing: it has waited for that."""
        return 0

    def begin(self, reader: Reader) -> Iterator[Any]:
        """Read it, and then write it down."""
        explanation = reader.explain(self.question, self.passage)
        yield None
        yield self.write(explanation)
