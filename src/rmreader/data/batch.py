"""A batch of questions as arrays: what the network reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rmreader.text.arrays import A, Arrays
from rmreader.text.piece_layout import Layout
from rmreader.text.words import Words

B = TypeVar("B")
T = TypeVar("T")


@dataclass(frozen=True)
class WordRows(Arrays[A]):
    """Where the distinct words of a batch are in the table of a whole vocabulary."""

    rows: A  # int [W]
    characters: int  # how many the longest of those words needs


@dataclass(frozen=True)
class QuestionSource(Arrays[A]):
    """Where the questions of a batch come from."""

    index: A  # int [B]: number of each question in its data set
    offset: A  # int [B]: first token of the passage that is in the batch, where passages are cut


@dataclass(frozen=True)
class Target(Arrays[A]):
    """The answers, in tokens of the passage; -1 for a question without one."""

    start: A  # int [B]: first token
    end: A  # int [B]: last token, inclusive


@dataclass(frozen=True)
class Tags(Arrays[A]):
    """Part of speech and entity of every word."""

    question: A  # int [B, n, 2]
    context: A  # int [B, m, 2]


@dataclass(frozen=True)
class FrozenLayers(Arrays[A]):
    """Frozen contextual vectors of every word."""

    question: A  # float [B, n, layers, size]
    context: A  # float [B, m, layers, size]


@dataclass(frozen=True)
class LayerRows(Arrays[A]):
    """Where frozen contextual vectors are in tables on the device."""

    question: A  # int [B, n]
    context: A  # int [B, m]


@dataclass(frozen=True)
class Taught(Arrays[A]):
    """What a teacher says about the questions."""

    start: A  # float [B, m]: its log p1
    end: A  # float [B, m]: its log p2
    no_answer: A | None = None  # float [B]: its log-odds of no answer
    # its states of every word, V and U of Eq. 12, in 127ths
    question_states: A | None = None  # int8 [B, n, 2d]
    context_states: A | None = None  # int8 [B, m, 2d]


@dataclass(frozen=True)
class Batch(Arrays[A]):
    """B questions of at most n tokens, each with a passage of at most m tokens.

    ``words`` holds the distinct words of the batch; ``question`` and ``context`` are rows of it, 0
    where padded. What is rows of a table on the device is looked up there before the network reads
    (``training/feed.py``).
    """

    question: A  # int [B, n]
    context: A  # int [B, m]
    question_lengths: A  # int [B], at least 1
    context_lengths: A  # int [B], at least 1
    words: Words[A] | WordRows[A]
    source: QuestionSource[A] | None = None
    target: Target[A] | None = None  # training
    tags: Tags[A] | None = None
    # Layout: of a tuned encoder
    contextual: FrozenLayers[A] | LayerRows[A] | Layout[A] | None = None
    taught: Taught[A] | None = None  # training with a teacher
    letters: A | None = None  # int [2, N]: word and place in it of every letter, 0 and 0 at the end

    def map(self, change: Callable[[A], B]) -> Batch[B]:
        """The same batch with ``change`` applied to every array."""
        batch: Batch[B] = super().map(change)
        return batch


def required(value: T | None, name: str) -> T:
    """The value; ValueError where a batch lacks it."""
    if value is None:
        raise ValueError(f"the batch has no {name}, which are needed here")
    return value
