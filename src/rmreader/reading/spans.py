"""Answers off the pointers, in NumPy: the best spans i ≤ j < i + L by p₁(i)·p₂(j), Eq. 6."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.scoring.squad import scored_words

Floats = NDArray[np.floating[Any]]
Spans = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Starts, ends (inclusive) and scores."""


# Words that answer nothing by themselves.
_EMPTY = re.compile(
    "a[st]|by|for|from|in|into|of|off|on|onto|out|over|per|than|to|up|upon|via|with|within|"
    "and|or|nor|but|if|so|that|which|who|whom|whose|it|its|is|are|was|were|be|been|being|am|"
    "has|have|had|do|does|did|will|would|can|could|may|might|shall|should|must"
)


def span_scores(start: Floats, end: Floats, max_length: int) -> NDArray[np.float64]:
    """[starts, L]: start(i) + end(i+l) of the span of l + 1 words from word i; -inf where it would
    leave the passage.

    ``start`` may be shorter than ``end``: then only spans that begin in its part are scored.
    """
    width = min(max_length, len(end))
    padded = np.full(len(end) + width - 1, -np.inf)
    padded[: len(end)] = end
    ends = np.ndarray(
        (len(start), width),
        np.float64,
        padded,
        strides=(8, 8),
    )  # row i: end(i), …, end(i + width - 1)

    return np.asarray(start[:, None] + ends)


def with_words(scores: NDArray[np.float64], words: Sequence[str]) -> NDArray[np.float64]:
    """The scores, -inf where a span has no word that counts, as "the" or ")"; but the best one
    stays."""
    counts = [word != "" and not _EMPTY.fullmatch(word) for word in scored_words(words)]
    has_words = _within(counts, scores.shape) > 0
    masked = np.where(has_words, scores, -np.inf)
    masked.flat[scores.argmax()] = scores.max()

    return np.asarray(masked)


def overlaps(
    words: Sequence[str],
    shape: tuple[int, ...],
    start: int,
    end: int,
) -> NDArray[np.float64]:
    """F1 of every span with the one from ``start`` to ``end``, in the shape of their
    ``span_scores``.

    As answers are scored: of words without articles and punctuation (unless this one has no
    others), wherever they are.
    """
    scored = scored_words(words)
    if not any(scored[start : end + 1]):
        scored = list(words)

    own = Counter(word for word in scored[start : end + 1] if word)
    shared = np.zeros(shape)
    for word, count in own.items():
        same = [other == word for other in scored]
        shared += np.minimum(_within(same, shape), count)

    lengths = _within([word != "" for word in scored], shape)
    return np.asarray(2 * shared / np.maximum(lengths + own.total(), 1))


def _within(tokens: Sequence[bool], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How many of these tokens are in each span."""
    begins = np.arange(shape[0])[:, None]
    ends = np.minimum(begins + np.arange(1, shape[1] + 1), len(tokens))
    until = np.concatenate([[0], np.cumsum(tokens)])
    return np.asarray(until[ends] - until[begins])


def best_spans(scores: NDArray[np.float64], k: int) -> Spans:
    """The k best of ``span_scores``, best first: starts, ends (inclusive), scores. Of two equals
    the earlier is first.

    Fewer than k where there are not so many spans.
    """
    flat = scores.ravel()
    width = scores.shape[1]
    if k == 1 and len(flat):
        best = int(flat.argmax())
        start, more = divmod(best, width)
        return np.array([start]), np.array([start + more]), flat[[best]]

    k = min(k, int(np.isfinite(flat).sum()))
    if k == 0:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, np.empty(0)

    floor = np.partition(flat, -k)[-k]
    candidates = np.flatnonzero(flat >= floor)  # with every span that ties for the last place
    order = np.argsort(-flat[candidates], kind="stable")
    chosen = candidates[order[:k]]
    starts, lengths = np.divmod(chosen, width)

    return starts, starts + lengths, flat[chosen]


def different_spans(scores: NDArray[np.float64], k: int) -> Spans:
    """As ``best_spans``, but different answers: none shares a word with a better one.

    A span that does would be the same answer with other edges. Fewer than k where the passage has
    no more.
    """
    if k == 1:
        return best_spans(scores, 1)

    # Most often the first few hold them, and sorting all spans is slow.
    spans = best_spans(scores, 32 * k)
    chosen = _apart(spans, k)
    if len(chosen) < k:
        spans = best_spans(scores, scores.size)
        chosen = _apart(spans, k)

    starts, ends, values = spans
    return starts[chosen], ends[chosen], values[chosen]


def _apart(spans: Spans, k: int) -> list[int]:
    """The numbers of the first k spans that share no word with an earlier one."""
    chosen: list[int] = []
    starts, ends, _ = spans
    taken = np.zeros(int(ends.max(initial=0)) + 1, bool)
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if len(chosen) == k:
            break

        if not taken[start : end + 1].any():
            chosen.append(number)
            taken[start : end + 1] = True

    return chosen


def f1_to_expect(
    scores: NDArray[np.float64],
    shares: NDArray[np.float64],
    temperature: float,
) -> float:
    """The confidence of an answer: its F1 with every span that may be the right one (``overlaps``).

    Each is weighted by its p at the temperature. Doubt about an answer's edges then costs less than
    a rival elsewhere.
    """
    weights = np.exp((scores - scores.max()) / temperature)
    return float((shares * weights).sum() / weights.sum())


def log_softmax(logits: Floats) -> NDArray[np.float64]:
    """Logits as log-probabilities."""
    return np.asarray(logits.astype(np.float64) - log_sum(logits))


def log_sum(logits: Floats) -> float:
    """log Σ exp, whatever the size of the logits; -inf of none."""
    return float(np.logaddexp.reduce(logits, dtype=np.float64))
