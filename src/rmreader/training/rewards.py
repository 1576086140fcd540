"""The reward R(A): the official text F1 of a span against all references, exact, on the device,
without waiting.

The official rule lower-cases the text, deletes ASCII punctuation, removes articles and splits at
white space. All of it is decided ahead for every passage but what depends on where the span is cut.
A passage becomes *pieces*: what is left of its tokens, split where the class of characters (``\\w``
or not) changes, so that articles are whole runs of pieces. Words are compared by a polynomial hash
modulo 2^64, read off prefix sums: the hash of the characters a..b−1 is
Σ c_k·base^(b−k) = (S[b] − S[a])·base^b with S[b] = Σ_{k<b} c_k·base^(−k).

One thing is decided for the whole passage although it depends on the cut: whether a capital Σ that
is between letters and, say, an apostrophe ends its word, and so becomes ς instead of σ.
"""

from __future__ import annotations

import dataclasses
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.scoring.squad import normalize

# Odd, so that it has an inverse modulo 2^64.
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)

# Classes of characters.
_DROPPED = 0
_SYMBOL = 1
_WORD = 2


@dataclass(frozen=True)
class Cut:
    """One passage of T tokens and P pieces, or many of them end to end."""

    # [T+1]: the first piece of each token, and where the pieces end
    first: NDArray[np.int64]

    # [P+1]: S at the beginning of each piece, and at the end; base^b there
    sums: NDArray[np.uint64]
    powers: NDArray[np.uint64]

    # [P+1]: there is white space before this piece
    fresh: NDArray[np.bool_]

    # [P+1, 2]: first and last piece of its run of \w; last < first where it is a symbol
    run: NDArray[np.int64]


def cut_pieces(text: str, starts: NDArray[Any], ends: NDArray[Any]) -> Cut:
    """The pieces of a passage whose tokens are text[starts[t]:ends[t]]."""
    # Every character of the lower-cased text, with the place that it came from: İ becomes two.
    codes = _codes(text)
    lowered = _codes(text.lower())
    source = np.repeat(np.arange(len(codes)), np.where(codes == 0x130, 2, 1))

    # Of these, the ones that the official rule keeps and that are in a token.
    token = np.searchsorted(starts, source, side="right") - 1
    in_token = (token >= 0) & (source < np.append(ends, 0)[token])
    kinds = _classes()[lowered]
    kept = np.flatnonzero((kinds != _DROPPED) & in_token)
    token = token[kept]
    kinds = kinds[kept]

    # A piece begins with each token, and where the class changes within one.
    begins = np.flatnonzero(_changes(token) | _changes(kinds))
    bounds = np.append(begins, len(kept))
    sums, powers = _prefix_sums(lowered[kept])

    # Where each piece stands among words and runs.
    piece_token = token[begins]
    fresh = _after_space(starts, ends, piece_token)
    run = _runs(fresh, kinds[begins] == _WORD)
    return Cut(
        first=np.searchsorted(piece_token, np.arange(len(starts) + 1)),
        sums=sums[bounds],
        powers=powers[bounds],
        fresh=np.append(fresh, True),
        run=np.concatenate([run, [[0, -1]]]),
    )


def _prefix_sums(characters: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """S and base^b for every b from 0 to the number of characters, and more powers."""
    count = len(characters)
    # Rounded up, so that the powers in the cache serve many passages.
    powers, inverse = _powers(max(1 << 14, 1 << count.bit_length()))
    values = characters.astype(np.uint64) + np.uint64(1)
    terms = np.cumsum(values * inverse[:count], dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), terms])
    return sums, powers


def _after_space(
    starts: NDArray[Any],
    ends: NDArray[Any],
    piece_token: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which pieces come after white space."""
    is_apart = starts > np.concatenate([[-1], ends[:-1]])  # from the token before
    chunk = np.cumsum(is_apart)[piece_token]
    return _changes(chunk)


def _runs(fresh: NDArray[np.bool_], is_word: NDArray[np.bool_]) -> NDArray[np.int64]:
    """First and last piece of the run of each piece [P, 2]; the last is -1 for a symbol."""
    is_begin = fresh | _changes(is_word)
    begins = np.flatnonzero(is_begin)

    ends = np.append(begins[1:], len(fresh)) - 1
    run_of = np.cumsum(is_begin) - 1
    last = np.where(is_word, ends[run_of], -1)
    return np.stack([begins[run_of], last], 1)


def word_hash(word: str) -> int:
    """The hash of a whole word, as a signed 64-bit number."""
    value = 0
    for character in word:
        value = (value + ord(character) + 1) * _BASE

    value &= (1 << 64) - 1
    is_negative = value >> 63
    return value - (1 << 64) if is_negative else value


@dataclass(frozen=True)
class Rewards:
    """All passages and references of a data set as flat tensors; ``f1`` looks spans up in them."""

    # int [questions]: where the tokens of its passage begin in ``first``
    tokens: Tensor

    # see Cut, here counted over all passages
    first: Tensor
    sums: Tensor
    powers: Tensor
    fresh: Tensor
    run: Tensor

    # int [questions+1]: where the reference words of a question begin in the next three
    reference_at: Tensor
    # int [words]: every distinct word of every reference
    reference_hash: Tensor
    # int [words]: how often it is in the reference
    reference_count: Tensor
    # int [words]: which of the question's references
    reference_number: Tensor
    # int [questions, references]: words of each; 0 where there is none
    reference_length: Tensor

    articles: Tensor  # int [3]
    window: int  # pieces that a span can have
    reference_words: int  # distinct words that the references of one question can have

    def to(self, device: torch.device | str) -> Rewards:
        """The same tables on another device."""
        tables: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                tables[name] = value.to(device)

        return dataclasses.replace(self, **tables)

    def f1(self, question: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """Official F1 of the spans start..end (tokens, inclusive) of the numbered questions; all
        int [N], float [N]."""
        words, counted = self._words(question, start, end)

        # The distinct words of all references of a question [N, V]; not all have as many.
        at = self.reference_at[question][:, None] + _range(self.reference_words, question)
        there = at < self.reference_at[question + 1][:, None]
        at = at.clamp_max(len(self.reference_hash) - 1)

        # How often each of them is in the span, and so how often in both: the multiset overlap.
        is_same = words[:, :, None] == self.reference_hash[at][:, None, :]
        predicted = (is_same & counted[:, :, None]).sum(1)
        shared = torch.minimum(predicted, self.reference_count[at]) * there

        # The same for every reference by itself [N, R].
        lengths = self.reference_length[question]
        numbers = _range(lengths.shape[1], question)
        belongs = self.reference_number[at][:, None, :] == numbers[:, None]
        same = (shared[:, None, :] * belongs).sum(2)

        # 2PR/(P+R) with P = same/predicted and R = same/reference; 0 where nothing is shared, even
        # of two empty texts.
        both = counted.sum(1, keepdim=True) + lengths
        return (2.0 * same / both.clamp_min(1)).amax(1)

    def _words(self, question: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """Hashes of the normalised words of each span, [N, window], and which of the cells hold
        one."""
        # The pieces of each span; where it has fewer than the window, the cells after it repeat.
        tokens = self.tokens[question]
        first = self.first[tokens + start][:, None]
        stop = self.first[tokens + end + 1][:, None]
        piece = first + _range(self.window, question)
        inside = piece < stop
        piece = torch.minimum(piece, stop)

        # Articles are whole runs of \w, as far as they are within the span.
        run = self.run[piece]
        in_word = run[..., 1] >= run[..., 0]
        run_first = torch.maximum(run[..., 0], first)
        run_last = torch.minimum(run[..., 1], stop - 1)
        run_hash = self._hash(run_first, run_last)
        is_article = in_word & (run_hash[..., None] == self.articles).any(-1)
        content = inside & ~is_article

        # A word goes from a piece that begins one to the piece that closes it.
        fresh = self.fresh[piece]
        begins = content & (fresh | ~_shift(content, 1))
        closes = content & ~_shift(content & ~fresh, -1)
        word_first = torch.where(begins, piece, 0).cummax(1).values
        return self._hash(word_first, piece), closes

    def _hash(self, first: Tensor, last: Tensor) -> Tensor:
        """The hash of the pieces first..last, read off the prefix sums."""
        after = (last + 1).clamp(0, len(self.sums) - 1)
        difference = self.sums[after] - self.sums[first]
        return difference * self.powers[after]


def build_rewards(
    passages: Iterable[tuple[str, NDArray[Any], NDArray[Any]]],
    passage_of: NDArray[Any],
    references: Iterable[Sequence[str]],
    max_length: int | None = None,
) -> Rewards:
    """Tables for questions on passages (text, token starts, token ends); question q reads passage
    ``passage_of[q]``.

    ``max_length`` is the longest span, in tokens, that will be asked for; None allows any.
    """
    # All passages end to end: their pieces and tokens are counted on.
    cuts = [cut_pieces(*passage) for passage in passages]
    sizes = np.array([len(cut.sums) for cut in cuts])
    offsets = np.cumsum(sizes) - sizes
    token_offsets = np.cumsum([0] + [len(cut.first) for cut in cuts])
    first = [cut.first + at for cut, at in zip(cuts, offsets, strict=True)]
    run = [cut.run + at for cut, at in zip(cuts, offsets, strict=True)]

    # The references, and how large a lookup can become.
    words, per_question, lengths = _reference_tables(references)
    window = max((_window(cut.first, max_length) for cut in cuts), default=1)
    reference_words = max(per_question, default=1)

    return Rewards(
        tokens=_tensor(token_offsets[passage_of]),
        first=_tensor(np.concatenate(first)),
        sums=_tensor(np.concatenate([cut.sums for cut in cuts]).view(np.int64)),
        powers=_tensor(np.concatenate([cut.powers for cut in cuts]).view(np.int64)),
        fresh=_tensor(np.concatenate([cut.fresh for cut in cuts])),
        run=_tensor(np.concatenate(run)),
        reference_at=_tensor(np.cumsum([0, *per_question])),
        reference_hash=_tensor(words[:, 0]),
        reference_count=_tensor(words[:, 1]),
        reference_number=_tensor(words[:, 2]),
        reference_length=_tensor(lengths),
        articles=torch.tensor([word_hash(word) for word in ("a", "an", "the")]),
        window=max(1, window),
        reference_words=max(1, reference_words),
    )


def _reference_tables(
    references: Iterable[Sequence[str]],
) -> tuple[NDArray[np.int64], list[int], NDArray[np.int64]]:
    """Hash, count and reference of every distinct word [words, 3]; how many each question has; the
    references' words [questions, references]."""
    # Most words recur.
    hashed = lru_cache(maxsize=None)(word_hash)

    rows: list[tuple[int, int, int]] = []
    per_question: list[int] = []
    lengths: list[list[int]] = []
    for texts in references:
        before = len(rows)
        words = [normalize(text).split() for text in texts]

        for number, own in enumerate(words):
            for word, count in Counter(own).items():
                rows.append((hashed(word), count, number))

        per_question.append(len(rows) - before)
        lengths.append([len(own) for own in words])

    most = max([1, *map(len, lengths)])
    table = np.zeros((len(lengths), most), np.int64)
    for row, values in zip(table, lengths, strict=True):
        row[: len(values)] = values

    # One row at least, so that a lookup has something to read.
    distinct = np.array(rows or [(0, 0, 0)], np.int64)
    return distinct, per_question, table


def _window(first: NDArray[np.int64], max_length: int | None) -> int:
    """The most pieces that a span of up to ``max_length`` tokens has in a passage."""
    tokens = len(first) - 1
    reach = tokens if max_length is None else min(max_length, tokens)
    if not reach:
        return 0

    pieces = first[reach:] - first[: len(first) - reach]
    return int(pieces.max())


def _codes(text: str) -> NDArray[np.uint32]:
    """The characters of a text as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


@lru_cache(maxsize=1)
def _classes() -> NDArray[np.uint8]:
    """The class of every character there is: white space and ASCII punctuation go, ``\\w`` or not
    decides the rest."""
    every = range(0x110000)
    words = [code for code in every if chr(code).isalnum()]
    spaces = [code for code in every if chr(code).isspace()]
    punctuation = [ord(character) for character in string.punctuation]

    table = np.full(len(every), _SYMBOL, np.uint8)
    table[words] = _WORD
    table[spaces] = _DROPPED
    table[punctuation] = _DROPPED

    return table


@lru_cache(maxsize=1)
def _powers(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """base^k and base^(−k) modulo 2^64, for k below ``size``."""

    def powers(base: int) -> NDArray[np.uint64]:
        # 1, base, base, …: the products of all that come before.
        steps = np.full(size, base, np.uint64)
        steps[0] = 1
        return np.cumprod(steps, dtype=np.uint64)

    return powers(_BASE), powers(_INVERSE)


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value differs from the one before; the first always does."""
    first = np.ones(min(1, len(values)), bool)
    return np.concatenate([first, values[1:] != values[:-1]])


def _range(size: int, like: Tensor) -> Tensor:
    """0, 1, … on the device of another tensor."""
    return torch.arange(size, device=like.device)


def _shift(mask: Tensor, by: int) -> Tensor:
    """The mask moved by one column to the right (1) or the left (−1), with False moved in."""
    edge = torch.zeros_like(mask[:, :1])
    if by > 0:
        return torch.cat([edge, mask[:, :-1]], 1)
    return torch.cat([mask[:, 1:], edge], 1)


def _tensor(array: NDArray[Any]) -> Tensor:
    """The same memory as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(array))
