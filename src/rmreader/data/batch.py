"""A batch of questions as arrays: what the network reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rmreader.text.words import Words

T = TypeVar("T")
A = TypeVar("A")  # np.ndarray here, torch.Tensor from kernels/ on
B = TypeVar("B")


@dataclass(frozen=True)
class Batch(Generic[A]):
    """B questions of at most n tokens, each with a passage of at most m tokens.

    ``words`` holds the distinct words of the batch; ``question`` and ``context`` are rows of it, 0 where padded. What
    is named ``…_rows`` is to be looked up in tables on the device before the network reads (``training/feed.py``).
    """

    question: A  # int [B, n]
    context: A  # int [B, m]
    question_lengths: A  # int [B], at least 1
    context_lengths: A  # int [B], at least 1
    words: Words[A] | None
    start: A | None = None  # int [B]: first token of the answer (training)
    end: A | None = None  # int [B]: last token of the answer, inclusive
    question_tags: A | None = None  # int [B, n, 2]: part of speech and entity
    context_tags: A | None = None  # int [B, m, 2]
    question_layers: A | None = None  # float [B, n, layers, size]: frozen contextual vectors
    context_layers: A | None = None  # float [B, m, layers, size]
    pieces: A | None = None  # int [R, s]: input of a tuned contextual encoder (see text/piece_layout.py)
    piece_types: A | None = None  # int [R, s]: segment of each piece
    piece_mask: A | None = None  # bool [R, s]
    question_pieces: A | None = None  # int [B, n]: place of each word's first piece in the flattened sequences
    context_pieces: A | None = None  # int [B, m]
    index: A | None = None  # int [B]: number of each question in its data set (training, for rewards)
    offset: A | None = None  # int [B]: first token of the passage that is in the batch, where passages are cut
    query_pieces: A | None = None  # int [Q, t]: the questions' own sequences, where they are encoded apart
    query_mask: A | None = None  # bool [Q, t]
    taught_start: A | None = None  # float [B, m]: the teacher's log p1, log p2 and log-odds of no answer (training)
    taught_end: A | None = None  # float [B, m]
    taught_no_answer: A | None = None  # float [B]
    letters: A | None = None  # int [2, N]: word and place in it of every letter, 0 and 0 after the last (training)
    word_rows: A | None = None  # int [W], in the table of a whole vocabulary: gives ``words``
    word_characters: int = 0  # how many the longest of those words needs
    question_layer_rows: A | None = None  # int [B, n]: gives ``question_layers``
    context_layer_rows: A | None = None  # int [B, m]: gives ``context_layers``

    def map(self, change: Callable[[A], B]) -> Batch[B]:
        """The same batch with ``change`` applied to every array."""
        fields: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            kept = value is None or isinstance(value, int)
            fields[name] = value if kept else value.map(change) if isinstance(value, Words) else change(value)
        return Batch(**fields)


def given(value: T | None) -> T:
    """What a batch must have for what is to be done with it."""
    if value is None:
        raise ValueError("words, answers, tags, contextual layers or pieces are needed here, and the batch has none")
    return value
