"""Texts in pieces as the sequences that a transformer reads.

A text longer than the transformer's window is read in overlapping windows. A word's vector is that
of its first piece, in the window that shows most text on both its sides: nothing is cut off.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rmreader.text.arrays import A, Arrays
from rmreader.text.pieces import Frame, Pieces, PieceTable
from rmreader.text.words import round_up

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Layout(Arrays[A]):
    """The sequences of a batch and where its words are in them.

    Row k is the (first) window of example k; further windows come after row B. ``question_pieces``
    and ``context_pieces`` count through the flattened rows, row · s + column, of ``pieces``; those
    of the question through ``query_pieces`` where there is one. At padded words they point
    anywhere.
    """

    pieces: A  # int [R, s]: passages, or pairs of question and passage
    piece_types: A  # int [R, s]: segment of each piece
    piece_mask: A  # bool [R, s]
    question_pieces: A  # int [B, n]
    context_pieces: A  # int [B, m]
    query_pieces: A | None = None  # int [Q, t]: questions, where they are encoded apart
    query_mask: A | None = None  # bool [Q, t]


@dataclass(frozen=True)
class Alone:
    """The sequences of texts that are each read alone.

    ``places`` [B, n] are as ``context_pieces`` above.
    """

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
        """Return the length of the sequences.

        The longest has ``longest`` pieces, and texts are padded to ``words`` words.
        """
        width = round_up(math.ceil(self.least * words), self.pieces)
        if width < longest:
            width = round_up(longest, self.pieces)
        return max(min(width, window), longest)


@dataclass(frozen=True, eq=False)  # told apart by identity
class _Window:
    """The words [begin, end) of a text, or all of it."""

    text: Ints  # the pieces of the whole text
    counts: Ints  # of each of its words
    starts: NDArray[np.int64]  # first piece of each word, and the end
    begin: int
    end: int

    def split(self, room: int) -> list[Self]:
        """Split the whole text into windows of at most ``room`` pieces."""
        return [replace(self, begin=begin, end=end) for begin, end in windows(self.counts, room)]

    @property
    def ids(self) -> Ints:
        """Its own pieces."""
        return self.text[self.starts[self.begin] : self.starts[self.end]]


def windows(counts: Ints, room: int) -> list[tuple[int, int]]:
    """Return overlapping spans of words, each of at most ``room`` pieces.

    A quarter of each is shared with the span before. One span where all fits. The last one reaches
    as far back as there is room.
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
    """Return for each word the span in which the nearer cut is farthest away.

    A text's own two ends are no cuts, but need no rule of their own: the span that reaches one is
    also the span in which that side is farthest away, as all others begin or end before it does.
    """
    ends = np.cumsum(counts)
    starts = ends - counts
    context = np.full((len(spans), len(counts)), -1, dtype=np.int64)
    for row, (begin, end) in zip(context, spans, strict=True):
        before = starts[begin:end] - starts[begin]
        after = ends[end - 1] - ends[begin:end]
        row[begin:end] = np.minimum(before, after)
    best: Ints = context.argmax(axis=0).astype(np.int32)
    return best


def lay_out(
    tokenizer: Pieces,
    table: PieceTable,
    questions: Sequence[NDArray[Any]],
    contexts: Sequence[NDArray[Any]],
    pairing: Literal["apart", "together"],
    widths: tuple[int, int] | None = None,
    pad: PiecePadding | None = None,
) -> Layout[NDArray[Any]]:
    """Lay out texts, given as rows of ``table``.

    ``widths`` are n and m, where these are wider than the longest texts.
    """
    pad = pad or PiecePadding()
    n, m = widths or (max(map(len, questions)), max(map(len, contexts)))
    if pairing == "apart":
        query_pad = replace(pad, pieces=min(pad.pieces, 16))
        query = lay_out_alone(tokenizer, table, questions, n, query_pad)
        main = lay_out_alone(tokenizer, table, contexts, m, pad)
        return Layout(
            pieces=main.pieces,
            piece_types=main.types,
            piece_mask=main.mask,
            question_pieces=query.places,
            context_pieces=main.places,
            query_pieces=query.pieces,
            query_mask=query.mask,
        )
    question_windows, context_windows, rows = _pair_up(
        tokenizer, _spell(table, questions), _spell(table, contexts)
    )
    filled = _fill(rows, tokenizer, tokenizer.pair, n + m, pad)
    return Layout(
        pieces=filled.pieces,
        piece_types=filled.types,
        piece_mask=filled.mask,
        question_pieces=_places(question_windows, filled, n),
        context_pieces=_places(context_windows, filled, m),
    )


def lay_out_alone(
    tokenizer: Pieces,
    table: PieceTable,
    texts: Sequence[NDArray[Any]],
    width: int | None = None,
    pad: PiecePadding | None = None,
) -> Alone:
    """Lay out texts, given as rows of ``table``, each in sequences of its own."""
    room = tokenizer.window - tokenizer.single.size
    split = [text.split(room) for text in _spell(table, texts)]
    rows = [[[window] for window in group] for group in split]
    width = width or max(map(len, texts))
    filled = _fill(rows, tokenizer, tokenizer.single, width, pad or PiecePadding())
    return Alone(filled.pieces, filled.types, filled.mask, _places(split, filled, width))


def _spell(table: PieceTable, texts: Sequence[NDArray[Any]]) -> list[_Window]:
    spelled = []
    for text in texts:
        ids, counts = table.spell(np.asarray(text, np.int64))
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        spelled.append(_Window(ids, counts, starts, begin=0, end=len(counts)))
    return spelled


def _pair_up(
    tokenizer: Pieces,
    questions: list[_Window],
    contexts: list[_Window],
) -> tuple[list[list[_Window]], list[list[_Window]], list[list[list[_Window]]]]:
    """Return the windows of each question, of each passage, and the pairs to read.

    Every window of the passage is read with the (first of the) question, every further one of the
    question with the first of the passage. A question may fill half of the encoder's window before
    it is split.
    """
    room = tokenizer.window - tokenizer.pair.size
    question_windows = []
    context_windows = []
    rows = []
    for question, context in zip(questions, contexts, strict=True):
        asked = question.split(room // 2)
        longest = max(len(window.ids) for window in asked)
        read = context.split(room - longest)
        question_windows.append(asked)
        context_windows.append(read)
        pairs = [[asked[0], window] for window in read]
        pairs += [[window, read[0]] for window in asked[1:]]
        rows.append(pairs)
    return question_windows, context_windows, rows


@dataclass(frozen=True)
class _Filled:
    """Sequences, and for each window the flat place of its text's piece 0, were that in its row."""

    pieces: Ints  # [R, s]
    types: Ints  # [R, s]
    mask: NDArray[np.bool_]  # [R, s]
    bases: dict[_Window, int]


def _fill(
    groups: list[list[list[_Window]]],
    tokenizer: Pieces,
    frame: Frame,
    words: int,
    pad: PiecePadding,
) -> _Filled:
    """Write the rows of each example: first the first of each, then all others."""
    rows = [group[0] for group in groups]
    rows += [row for group in groups for row in group[1:]]
    longest = frame.size + max(sum(len(window.ids) for window in row) for row in rows)
    width = pad.width(longest, words, tokenizer.window)
    height = len(groups) + round_up(len(rows) - len(groups), pad.windows)
    pieces = np.full((height, width), tokenizer.pad, dtype=np.int32)
    types = np.zeros((height, width), dtype=np.int32)
    lengths = np.ones(height, dtype=np.int32)  # keep one piece so the softmax is defined
    bases: dict[_Window, int] = {}
    for number, row in enumerate(rows):
        column = 0
        for window, ids, kind in _in_frame(row, frame):
            if window is not None:
                base = number * width + column - int(window.starts[window.begin])
                bases.setdefault(window, base)
            pieces[number, column : column + len(ids)] = ids
            types[number, column : column + len(ids)] = kind
            column += len(ids)
        lengths[number] = column
    return _Filled(pieces, types, np.arange(width) < lengths[:, None], bases)


def _in_frame(row: list[_Window], frame: Frame) -> Iterator[tuple[_Window | None, Any, int]]:
    """Yield special pieces and texts in turn, with their segments."""
    for number, special in enumerate(frame.around):
        yield None, special, frame.around_types[number]
        if number < len(row):
            yield row[number], row[number].ids, frame.types[number]


def _places(split: list[list[_Window]], filled: _Filled, width: int) -> Ints:
    """Return [B, width]: where each word's first piece is.

    Padding is spread over all places, so that the gradients of a gather do not queue up at one.
    """
    numbers = np.arange(len(split) * width, dtype=np.int64)
    places = (numbers % filled.pieces.size).reshape(len(split), width)
    for row, group in zip(places, split, strict=True):
        counts = group[0].counts
        bases = np.array([filled.bases[window] for window in group])
        chosen: Any = 0
        if len(group) > 1:
            chosen = best_window(counts, [(window.begin, window.end) for window in group])
        row[: len(counts)] = bases[chosen] + group[0].starts[:-1]
    return places.astype(np.int32)
