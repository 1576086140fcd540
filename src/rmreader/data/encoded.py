"""Questions and passages as token ids, as views of arrays that may lie on disk."""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rmreader.data.squad import Problem
from rmreader.data.store import Arrays, text_at

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Encoded:
    """Tokenised questions and passages, whatever the lexicon.

    Token id k is ``vocabulary[k - 1]`` and id 0 is padding, so ids index
    ``lexicon.look_up(vocabulary)`` directly. Question i of this view is row ``rows[i]`` of the
    arrays.
    """

    vocabulary: list[str]
    arrays: Arrays
    rows: NDArray[np.int64]
    problems: tuple[Problem, ...] = ()
    ambiguous: tuple[Problem, ...] = ()
    paragraph: Ints = field(init=False)
    """Number of each question's passage, which several may share."""
    article: Ints = field(init=False)
    """Number of each question's article."""
    start: Ints = field(init=False)
    """First token of the first answer on token boundaries; -1 without an answer."""
    end: Ints = field(init=False)
    """Last token, inclusive, of that answer."""

    def __post_init__(self) -> None:
        for name in ("paragraph", "article", "start", "end"):
            object.__setattr__(self, name, np.asarray(self.arrays[name][self.rows]))

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, indices: NDArray[Any] | Sequence[int]) -> Self:
        """Return the same data with these questions alone, in this order; a mask will do."""
        chosen = np.asarray(indices)
        rows = self.rows[chosen] if len(chosen) else self.rows[:0]
        return dataclasses.replace(self, rows=rows)

    @cached_property
    def question_lengths(self) -> Ints:
        """Tokens of each question."""
        return np.diff(self.arrays["question_bounds"]).astype(np.int32)[self.rows]

    @cached_property
    def context_lengths(self) -> Ints:
        """Tokens of each question's passage."""
        return np.diff(self.arrays["context_bounds"]).astype(np.int32)[self.paragraph]

    @cached_property
    def answered(self) -> bool:
        """Whether any question of this view has an answer."""
        return bool((self.start >= 0).any())

    @cached_property
    def ids(self) -> list[str]:
        """The questions' ids."""
        return [text_at(self.arrays, "names", row) for row in self.rows.tolist()]

    @cached_property
    def content(self) -> str:
        """A digest of the words of all texts and where each text ends.

        It does not depend on which questions this view has.
        """
        digest = hashlib.sha256("\n".join(self.vocabulary).encode("utf-8", "surrogatepass"))
        for name in ("context_tokens", "context_bounds", "question_tokens", "question_bounds"):
            digest.update(np.ascontiguousarray(self.arrays[name]).data)
        return digest.hexdigest()[:32]

    def question_tokens(self, i: int) -> Ints:
        """Return the token ids of a question."""
        return self._run("question_tokens", "question_bounds", self.rows[i])

    def context_tokens(self, i: int) -> Ints:
        """Return the token ids of a question's passage."""
        return self._run("context_tokens", "context_bounds", self.paragraph[i])

    def spans(self, i: int) -> tuple[Ints, Ints]:
        """Return where the tokens of a question's passage start and end in its text."""
        place = self.paragraph[i]
        starts = self._run("starts", "context_bounds", place)
        ends = self._run("ends", "context_bounds", place)
        return starts, ends

    def question(self, i: int) -> str:
        """Return a question's text."""
        return text_at(self.arrays, "questions", self.rows[i])

    def passage(self, i: int) -> str:
        """Return the text of a question's passage."""
        return text_at(self.arrays, "passages", self.paragraph[i])

    def references(self, i: int) -> list[str]:
        """Return the answers people gave to a question."""
        begin, end = self.arrays["answer_bounds"][self.rows[i] : self.rows[i] + 2]
        return [text_at(self.arrays, "answers", k) for k in range(begin, end)]

    def _run(self, name: str, bounds: str, place: int) -> Ints:
        begin, end = self.arrays[bounds][place : place + 2]
        return np.asarray(self.arrays[name][begin:end])
