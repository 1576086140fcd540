"""Batches: which questions are together, and their arrays."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.data.batch import Batch, QuestionSource, Target, WordRows
from rmreader.data.encoded import Encoded
from rmreader.text.words import Words, round_up

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Padding:
    """Sizes are rounded up to multiples of these, so that the shapes of batches repeat."""

    question: int = 1
    context: int = 1
    words: int = 1
    # width of the character table is at least this; set it to the lexicon's max_characters
    characters: int = 0


@dataclass(frozen=True)
class Buckets:
    """Batches of questions with passages of about the
    same length, differently mixed in every epoch.

    With ``groups`` the questions of one number are in one batch, where they are
    neighbours. A batch is then short where no group is left that would fill it.
    """

    lengths: NDArray[Any]
    batch_size: int
    seed: int
    # lengths are taken as up to this share longer or shorter when questions are sorted by them
    noise: float = 0.1
    # leave out questions (others in each epoch) so that every batch is full
    drop_last: bool = False
    groups: NDArray[Any] | None = None  # the number of each question's group, 0, 1, 2 …

    def epoch(self, k: int) -> list[Ints]:
        """The batches of epoch k as question numbers: a function of the seed and k alone."""
        generator = np.random.default_rng((self.seed % 2**64, k))
        members, sizes, lengths = self._units

        units = generator.permutation(len(lengths))
        full, rest = divmod(len(self.lengths), self.batch_size)
        if self.drop_last:
            units, *_ = fill_rooms(units, sizes, [full * self.batch_size])

        # Neighbours are of about the same length.
        noisy = lengths[units] * generator.uniform(1 - self.noise, 1 + self.noise, len(units))
        units = units[np.argsort(noisy, kind="stable")]

        # The short batch is of any length, not always of the longest.
        rooms = np.full(full, self.batch_size)
        if rest and not self.drop_last:
            rooms = np.insert(rooms, generator.integers(full + 1), rest)

        *batches, left = fill_rooms(units, sizes, rooms)
        while len(left) and not self.drop_last:  # groups that fitted nowhere
            batch, left = fill_rooms(left, sizes, [self.batch_size])
            batches.append(batch)

        if members is not None:
            batches = [
                np.concatenate([members[unit] for unit in batch.tolist()])
                for batch in batches
                if len(batch)
            ]

        return [batches[place] for place in generator.permutation(len(batches))]

    @cached_property
    def _units(self) -> tuple[list[Ints] | None, Ints | None, NDArray[Any]]:
        """What stays together: its questions and how many they
        are, None where each is alone; its longest passage."""
        lengths = np.asarray(self.lengths)
        if self.groups is None:
            return None, None, lengths

        sizes = np.bincount(self.groups)
        members = np.split(np.argsort(self.groups, kind="stable"), np.cumsum(sizes)[:-1])
        return members, sizes, np.array([lengths[questions].max() for questions in members])


def fill_rooms(units: Ints, sizes: Ints | None, rooms: Sequence[int] | Ints) -> list[Ints]:
    """What of the units, each of its size (None: 1), goes into each room, and last what is left.

    A room takes the next unit, over and over; one that is
    too large for what is left of it waits for the next room.
    """
    if sizes is None:
        return np.split(units, np.cumsum(rooms))

    waiting: dict[int, deque[int]] = {}  # places in ``units``, by size
    for place, size in enumerate(sizes[units].tolist()):
        waiting.setdefault(size, deque()).append(place)

    filled = []
    for room in map(int, rooms):
        taken: list[int] = []
        while fitting := [
            (places[0], size) for size, places in waiting.items() if places and size <= room
        ]:
            _, size = min(fitting)
            taken.append(waiting[size].popleft())
            room -= size

        filled.append(units[taken])

    return [*filled, units[sorted(place for places in waiting.values() for place in places)]]


def crop(encoded: Encoded, index: NDArray[Any], max_context: int | None) -> tuple[Ints, Ints]:
    """First token and number of tokens that ``assemble_rows`` takes of each question's passage.

    A passage longer than ``max_context`` is cut to a window that holds the
    answer. Where the answer is in it must tell nothing, so the window is
    drawn by the question's row, the same each time, from all that hold it.
    """
    lengths = encoded.context_lengths[index].astype(np.int64)
    if max_context is None:
        return np.zeros_like(lengths), lengths

    sizes = np.minimum(lengths, max_context)
    start = encoded.start[index]
    end = encoded.end[index]
    # an answer longer than the window keeps its beginning
    earliest = np.clip(end + 1 - sizes, 0, np.maximum(start, 0))
    latest = np.maximum(
        np.where(start < 0, lengths - sizes, np.minimum(start, lengths - sizes)), earliest
    )
    # 24 mixed bits
    draw = (encoded.rows[index].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    begin = earliest + ((latest - earliest + 1) * draw.astype(np.int64) >> 24)

    return np.minimum(begin, lengths - sizes), sizes


def assemble_rows(
    encoded: Encoded,
    lengths: NDArray[Any],
    index: NDArray[Any],
    pad: Padding | None = None,
    max_context: int | None = None,
) -> Batch[Any]:
    """The batch of some questions, its words by their rows
    in the vocabulary; ``lengths`` are the words' own.

    ``max_context`` is for training alone. Answers are there
    where the data has any, -1 for a question without one.
    """
    pad = pad or Padding()
    index = np.asarray(index)
    question_lengths = encoded.question_lengths[index].astype(np.int64)
    begin, context_lengths = crop(encoded, index, max_context)
    if not len(index) or min(question_lengths.min(), context_lengths.min()) < 1:
        raise ValueError(
            "a batch needs at least one question, and every question and passage a token"
        )

    n = round_up(int(question_lengths.max()), pad.question)
    m = round_up(int(context_lengths.max()), pad.context)
    asked, read = token_rows(encoded, index, begin, context_lengths, n, m)
    question = np.where(asked > 0, encoded.arrays["question_tokens"][asked - 1], 0)
    context = np.where(read > 0, encoded.arrays["context_tokens"][read - 1], 0)

    # The distinct words, short ones first: the character LSTM
    # walks neighbours together, to the end of the longest.
    used = np.zeros(len(lengths), dtype=bool)
    used[0] = True
    used[question] = True
    used[context] = True
    distinct = np.flatnonzero(used)
    distinct = distinct[np.argsort(lengths[distinct], kind="stable")]  # 0, padding, stays the first
    row = np.empty(len(used), dtype=np.int64)
    row[distinct] = np.arange(len(distinct))
    padded = np.zeros(round_up(len(distinct), pad.words), dtype=np.int64)
    padded[: len(distinct)] = distinct

    return Batch(
        question=row[question],
        context=row[context],
        question_lengths=question_lengths,
        context_lengths=context_lengths,
        words=WordRows(padded, max(int(lengths[distinct].max()), pad.characters)),
        source=QuestionSource(index.astype(np.int64), begin),
        target=_targets(encoded, index, begin, context_lengths),
    )


def _targets(
    encoded: Encoded,
    index: NDArray[Any],
    begin: Ints,
    lengths: Ints,
) -> Target[Any] | None:
    """The answers in tokens of the passages as they are cut, where the data has any."""
    if not encoded.answered:
        return None

    start = encoded.start[index]
    end = encoded.end[index]
    last = np.minimum(end - begin, lengths - 1)  # an answer longer than the window ends with it

    return Target(np.where(start < 0, -1, start - begin), np.where(end < 0, -1, last))


def token_rows(
    encoded: Encoded,
    index: NDArray[Any],
    begin: NDArray[Any],
    lengths: NDArray[Any],
    n: int,
    m: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the tokens of some questions [B, n] and of
    their passages [B, m], in arrays whose row 0 is padding.

    Of the passages, ``lengths`` tokens from token ``begin``
    on. Row 0, padding, is after the end of every text.
    """
    first = encoded.arrays["question_bounds"][encoded.rows[index]]
    question = _runs(first, encoded.question_lengths[index], n)
    first = encoded.arrays["context_bounds"][encoded.paragraph[index]] + begin

    return question, _runs(first, lengths, m)


def _runs(first: NDArray[Any], lengths: NDArray[Any], width: int) -> NDArray[np.int64]:
    steps = np.arange(width)
    return np.where(steps < lengths[:, None], first[:, None] + steps + 1, 0)


def look_up(batch: Batch[Any], table: Words[Any]) -> Batch[Any]:
    """The batch with its words themselves in place of their rows, for arrays and tensors alike."""
    if isinstance(batch.words, Words):
        return batch
    words = table.take(batch.words.rows)
    characters = words.characters[:, : batch.words.characters]  # as wide as the longest needs
    return replace(batch, words=replace(words, characters=characters))


def list_letters(lengths: NDArray[Any]) -> Ints:
    """The word and the place in it of every letter [2, N]
    of words of these lengths; N is 8, 16, … a word."""
    total = int(lengths.sum())
    room = 8 * len(lengths)
    while room < total:
        room *= 2

    letters = np.zeros((2, room), np.int64)
    letters[0, :total] = np.repeat(np.arange(len(lengths)), lengths)
    letters[1, :total] = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    return letters
