"""Texts in pieces as the sequences that a transformer reads, in overlapping windows where they are longer than its own.

A word's vector is that of its first piece, in the window that shows most text on both its sides: nothing is cut off.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rmreader.text.pieces import Frame, Pieces, PieceTable
from rmreader.text.words import round_up

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Layout:
    """The sequences of a batch and where its words are in them; the names are those of ``Batch``.

    Row k is the (first) window of example k; further windows come after row B. ``question_pieces`` and
    ``context_pieces`` count through the flattened rows, row · s + column, of ``pieces``; those of the question through
    ``query_pieces`` where there is one. At padded words they point anywhere.
    """

    pieces: Ints  # [R, s]: passages, or pairs of question and passage
    piece_types: Ints  # [R, s]
    piece_mask: NDArray[np.bool_]  # [R, s]
    question_pieces: Ints  # [B, n]
    context_pieces: Ints  # [B, m]
    query_pieces: Ints | None = None  # [Q, t]: questions, where they are encoded apart
    query_mask: NDArray[np.bool_] | None = None  # [Q, t]


@dataclass(frozen=True)
class Alone:
    """The sequences of texts that are each read alone; ``places`` [B, n] as ``context_pieces`` above."""

    pieces: Ints  # [R, s]
    types: Ints  # [R, s]
    mask: NDArray[np.bool_]  # [R, s]
    places: Ints  # [B, n]


@dataclass(frozen=True)
class PiecePadding:
    """How shapes are rounded up, so that they repeat from batch to batch."""

    pieces: int = 1  # sequences to a multiple of this many pieces,
    least: float = 0.0  # but first to this many for each word of the longest text, padding counted
    windows: int = 1  # rows beyond one for each example to a multiple of this

    def width(self, longest: int, words: int, window: int) -> int:
        """The length of the sequences, where the longest has ``longest`` pieces and texts are padded to ``words``."""
        wanted = round_up(math.ceil(self.least * words), self.pieces)
        wanted = wanted if wanted >= longest else round_up(longest, self.pieces)
        return max(min(wanted, window), longest)


@dataclass(frozen=True, eq=False)  # told apart by identity
class _Window:
    """The words [begin, end) of a text, or all of it."""

    text: Ints  # the pieces of the whole text
    counts: Ints  # of each of its words
    starts: NDArray[np.int64]  # first piece of each word, and the end
    begin: int
    end: int

    def split(self, room: int) -> list[Self]:
        """The whole text in windows of at most ``room`` pieces."""
        return [replace(self, begin=begin, end=end) for begin, end in windows(self.counts, room)]

    @property
    def ids(self) -> Ints:
        """Its own pieces."""
        return self.text[self.starts[self.begin] : self.starts[self.end]]


def windows(counts: Ints, room: int) -> list[tuple[int, int]]:
    """Overlapping spans of words, each of at most ``room`` pieces; a quarter of it is shared with the span before.

    One span where all fits. The last one reaches as far back as there is room.
    """
    ends = np.cumsum(counts)
    if not len(counts) or ends[-1] <= room:
        return [(0, len(counts))]
    starts = ends - counts
    spans: list[tuple[int, int]] = []
    begin = 0
    while True:
        end = int(np.searchsorted(ends, starts[begin] + room, side="right"))
        if end == len(counts):
            spans.append((int(np.searchsorted(starts, ends[-1] - room)), end))
            return spans
        spans.append((begin, end))
        begin = max(begin + 1, int(np.searchsorted(starts, ends[end - 1] - room // 4)))


def best_window(counts: Ints, spans: Sequence[tuple[int, int]]) -> Ints:
    """For each word the span in which the nearer cut is farthest away.

    A text's own two ends are no cuts, but need no rule of their own: the span that reaches one is also the span in
    which that side is farthest away, as all others begin or end before it does.
    """
    ends = np.cumsum(counts)
    starts = ends - counts
    context = np.full((len(spans), len(counts)), -1, dtype=np.int64)
    for row, (begin, end) in zip(context, spans, strict=True):
        row[begin:end] = np.minimum(starts[begin:end] - starts[begin], ends[end - 1] - ends[begin:end])
    chosen: Ints = context.argmax(axis=0).astype(np.int32)
    return chosen


def lay_out(
    tokenizer: Pieces,
    table: PieceTable,
    questions: Sequence[NDArray[Any]],
    contexts: Sequence[NDArray[Any]],
    pairing: Literal["apart", "together"],
    widths: tuple[int, int] | None = None,
    pad: PiecePadding | None = None,
) -> Layout:
    """Texts as rows of ``table`` -> their sequences. ``widths``: n and m, where wider than the longest texts."""
    pad = pad or PiecePadding()
    n, m = widths or (max(map(len, questions)), max(map(len, contexts)))
    if pairing == "apart":
        query = lay_out_alone(tokenizer, table, questions, n, replace(pad, pieces=min(pad.pieces, 16)))
        main = lay_out_alone(tokenizer, table, contexts, m, pad)
        return Layout(main.pieces, main.types, main.mask, query.places, main.places, query.pieces, query.mask)
    asked, read, rows = _pair_up(tokenizer, _spell(table, questions), _spell(table, contexts))
    (pieces, types, mask), bases = _fill(rows, tokenizer, tokenizer.pair, n + m, pad)
    size = pieces.size
    return Layout(pieces, types, mask, _places(asked, bases, n, size), _places(read, bases, m, size))


def lay_out_alone(
    tokenizer: Pieces,
    table: PieceTable,
    texts: Sequence[NDArray[Any]],
    width: int | None = None,
    pad: PiecePadding | None = None,
) -> Alone:
    """Texts as rows of ``table``, each in sequences of its own."""
    split = [text.split(tokenizer.window - tokenizer.single.size) for text in _spell(table, texts)]
    rows = [[[window] for window in group] for group in split]
    width = width or max(map(len, texts))
    arrays, bases = _fill(rows, tokenizer, tokenizer.single, width, pad or PiecePadding())
    return Alone(*arrays, _places(split, bases, width, arrays[0].size))


def _spell(table: PieceTable, texts: Sequence[NDArray[Any]]) -> list[_Window]:
    spelled = (table.spell(np.asarray(text, np.int64)) for text in texts)
    return [_Window(ids, n, np.concatenate([[0], np.cumsum(n, dtype=np.int64)]), 0, len(n)) for ids, n in spelled]


def _pair_up(
    tokenizer: Pieces, questions: list[_Window], contexts: list[_Window]
) -> tuple[list[list[_Window]], list[list[_Window]], list[list[list[_Window]]]]:
    """Every window of the passage with the (first of the) question, every further one of the question with the first
    of the passage. A question may fill half of the encoder's window before it is split."""
    room = tokenizer.window - tokenizer.pair.size
    all_asked, all_read, rows = [], [], []
    for question, context in zip(questions, contexts, strict=True):
        asked = question.split(room // 2)
        read = context.split(room - max(len(window.ids) for window in asked))
        rows.append([[asked[0], window] for window in read] + [[window, read[0]] for window in asked[1:]])
        all_asked.append(asked)
        all_read.append(read)
    return all_asked, all_read, rows


def _fill(
    groups: list[list[list[_Window]]], tokenizer: Pieces, frame: Frame, words: int, pad: PiecePadding
) -> tuple[tuple[Ints, Ints, NDArray[np.bool_]], dict[_Window, int]]:
    """Write the rows of each example, the first of each first -> (pieces, types, mask) and, for each window, the
    flat place of its text's piece 0, were that in the row."""
    rows = [group[0] for group in groups] + [row for group in groups for row in group[1:]]
    longest = frame.size + max(sum(len(window.ids) for window in row) for row in rows)
    width = pad.width(longest, words, tokenizer.window)
    height = len(groups) + round_up(len(rows) - len(groups), pad.windows)
    pieces = np.full((height, width), tokenizer.pad, dtype=np.int32)
    types = np.zeros((height, width), dtype=np.int32)
    lengths = np.ones(height, dtype=np.int32)  # an empty row looks at one piece, lest its softmax be of nothing
    bases: dict[_Window, int] = {}
    for number, row in enumerate(rows):
        column = 0
        special = [(None, ids, kind) for ids, kind in zip(frame.around, frame.around_types, strict=True)]
        texts = [(window, window.ids, kind) for window, kind in zip(row, frame.types, strict=True)]
        for window, ids, kind in filter(
            None, chain(*zip_longest(special, texts))
        ):  # before, text, (between, text,) after
            if window is not None:
                bases.setdefault(window, number * width + column - int(window.starts[window.begin]))
            pieces[number, column : column + len(ids)] = ids
            types[number, column : column + len(ids)] = kind
            column += len(ids)
        lengths[number] = column
    return (pieces, types, np.arange(width) < lengths[:, None]), bases


def _places(split: list[list[_Window]], bases: dict[_Window, int], width: int, size: int) -> Ints:
    """[B, width]: where each word's first piece is. Padding is spread over all places, so that the gradients of a
    gather do not queue up at one of them."""
    places = (np.arange(len(split) * width, dtype=np.int64) % size).reshape(len(split), width)
    for row, group in zip(places, split, strict=True):
        counts, starts = group[0].counts, group[0].starts
        chosen = best_window(counts, [(window.begin, window.end) for window in group]) if len(group) > 1 else 0
        row[: len(counts)] = np.array([bases[window] for window in group])[chosen] + starts[:-1]
    return places.astype(np.int32)
