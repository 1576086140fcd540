"""Answers off the pointers, in NumPy: the best spans i ≤ j < i + L by p₁(i)·p₂(j), Eq. 6."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.scoring.squad import scored_words

Floats = NDArray[np.floating[Any]]


def span_scores(start: Floats, end: Floats, max_length: int) -> NDArray[np.float64]:
    """[starts, L]: start(i) + end(i+l) of the span of l + 1 words from word i; -inf where it would leave the passage.

    ``start`` may be shorter than ``end``: then only spans that begin in its part are scored.
    """
    width = min(max_length, len(end))
    padded = np.full(len(end) + width - 1, -np.inf)
    padded[: len(end)] = end
    ends = np.ndarray((len(start), width), np.float64, padded, strides=(8, 8))  # row i: end(i), …, end(i + width - 1)
    return np.asarray(start[:, None] + ends)


def with_words(scores: NDArray[np.float64], words: Sequence[str]) -> NDArray[np.float64]:
    """The scores, -inf where a span has no word that counts, as "the" or ")"; but the best one stays."""
    found = np.where(_within([word != "" for word in scored_words(words)], scores.shape) > 0, scores, -np.inf)
    found.flat[scores.argmax()] = scores.max()
    return np.asarray(found)


def overlaps(words: Sequence[str], shape: tuple[int, ...], start: int, end: int) -> NDArray[np.float64]:
    """F1 of every span with the one from ``start`` to ``end``, in the shape of their ``span_scores``, as answers are
    scored: of words without articles and punctuation (unless this one has no others), wherever they are."""
    scored = scored_words(words)
    if not any(scored[start : end + 1]):
        scored = list(words)
    own = Counter(word for word in scored[start : end + 1] if word)
    shared = np.zeros(shape)
    for word, count in own.items():
        shared += np.minimum(_within([one == word for one in scored], shape), count)
    return np.asarray(2 * shared / np.maximum(_within([one != "" for one in scored], shape) + own.total(), 1))


def _within(tokens: Sequence[bool], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How many of these tokens are in each span."""
    begins = np.arange(shape[0])[:, None]
    ends = np.minimum(begins + np.arange(1, shape[1] + 1), len(tokens))
    until = np.concatenate([[0], np.cumsum(tokens)])
    return np.asarray(until[ends] - until[begins])


def best_spans(scores: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The k best of ``span_scores``, best first: starts, ends (inclusive), scores. Of two equals the earlier is first.

    Fewer than k where there are not so many spans.
    """
    flat = scores.ravel()
    if k == 1 and len(flat):
        best = int(flat.argmax())
        start, more = divmod(best, scores.shape[1])
        return np.array([start]), np.array([start + more]), flat[[best]]
    k = min(k, int(np.isfinite(flat).sum()))
    if k == 0:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, np.empty(0)
    floor = np.partition(flat, -k)[-k]
    candidates = np.flatnonzero(flat >= floor)  # with every span that ties for the last place
    chosen = candidates[np.argsort(-flat[candidates], kind="stable")[:k]]
    starts, lengths = np.divmod(chosen, scores.shape[1])
    return starts, starts + lengths, flat[chosen]


def different_spans(
    scores: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """As ``best_spans``, but k different answers: none shares a word with a better one, as the same answer with other
    edges would. Only where the passage has no k such answers do the best of the others fill up the list."""
    for many in (1 if k == 1 else 32 * k, scores.size):  # most often the first few hold them, and sorting all is slow
        starts, ends, values = best_spans(scores, many)
        taken, different, others = np.zeros(sum(scores.shape), bool), list[int](), list[int]()
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if len(different) == k:
                break
            if taken[start : end + 1].any():
                others.append(number)
            else:
                different.append(number)
                taken[start : end + 1] = True
        if len(different) == k:
            break
    chosen = sorted([*different, *others[: k - len(different)]])
    return starts[chosen], ends[chosen], values[chosen]


def f1_to_expect(scores: NDArray[np.float64], shares: NDArray[np.float64], temperature: float) -> float:
    """The confidence of an answer: its F1 with every span that may be the right one (``overlaps``), each weighted by
    its p at the temperature. Doubt about an answer's bounds then costs less than a rival elsewhere."""
    weights = np.exp((scores - scores.max()) / temperature)
    return float((shares * weights).sum() / weights.sum())


def log_softmax(logits: Floats) -> NDArray[np.float64]:
    """Logits as log-probabilities."""
    return np.asarray(logits.astype(np.float64) - log_sum(logits))


def log_sum(logits: Floats) -> float:
    """log Σ exp, whatever the size of the logits; -inf of none."""
    return float(np.logaddexp.reduce(logits, dtype=np.float64))
