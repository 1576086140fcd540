"""Spans in NumPy are those of the network's own decoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rmreader.model.spans import top_spans
from rmreader.reading.spans import (
    best_spans,
    different_spans,
    f1_to_expect,
    log_softmax,
    log_sum,
    overlaps,
    span_scores,
)
from rmreader.scoring.squad import f1, normalize


@given(st.integers(1, 30), st.integers(1, 20), st.integers(1, 12), st.integers(0, 10**6), st.booleans())
@settings(max_examples=150, deadline=None)
def test_equal_to_the_networks_decoder_even_where_scores_tie(
    m: int, longest: int, k: int, seed: int, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    p1, p2 = (rng.integers(-3, 1, m) if ties else rng.normal(size=m) for _ in range(2))
    p1, p2 = p1.astype(np.float64), p2.astype(np.float64)
    starts, ends, scores = best_spans(span_scores(p1, p2, longest), k)
    theirs = top_spans(torch.tensor(p1)[None], torch.tensor(p2)[None], torch.tensor([m]), longest, k)
    count = len(starts)
    assert count == min(k, sum(min(longest, m - i) for i in range(m)))
    assert starts.tolist() == theirs[0][0, :count].tolist()
    assert ends.tolist() == theirs[1][0, :count].tolist()
    np.testing.assert_allclose(scores, theirs[2][0, :count].numpy())


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 30), st.integers(0, 10**6), st.booleans())
@settings(max_examples=150, deadline=None)
def test_different_spans_are_the_best_that_share_no_word(m: int, longest: int, k: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    p1, p2 = (rng.integers(-3, 1, m) if ties else rng.normal(size=m) for _ in range(2))
    scores = span_scores(p1.astype(float), p2.astype(float), longest)
    every = list(zip(*(part.tolist() for part in best_spans(scores, scores.size)), strict=True))
    apart: list[tuple[int, int, float]] = []  # by the definition: go down the whole list
    for start, end, score in every:
        if len(apart) < k and all(end < first or last < start for first, last, _ in apart):
            apart.append((start, end, score))
    found = list(zip(*(part.tolist() for part in different_spans(scores, k)), strict=True))
    assert found == apart


def test_only_spans_that_begin_in_the_part_asked_for() -> None:
    start, end = np.array([0.0, 5.0]), np.array([0.0, 1.0, 9.0, 100.0])
    starts, ends, scores = best_spans(span_scores(start, end, 2), 10)
    assert list(zip(starts, ends, strict=True)) == [(1, 2), (1, 1), (0, 1), (0, 0)]
    assert scores.tolist() == [14.0, 6.0, 1.0, 0.0]


def test_the_f1_to_expect_is_a_mean_of_overlaps_under_the_tempered_softmax() -> None:
    start, end = np.array([2.0, -1.0, 0.5]), np.array([1.0, 0.0, -2.0])
    scores = span_scores(start, end, 2)  # of the spans 0, 0-1, 1, 1-2, 2
    flat, shares = np.array([3.0, 2.0, -1.0, -3.0, -1.5]), np.array([2 / 3, 1.0, 2 / 3, 0.5, 0.0])  # with 0-1
    for temperature in (0.5, 1.0, 4.0):
        p = np.exp(flat / temperature) / np.exp(flat / temperature).sum()
        assert f1_to_expect(scores, with_(scores, 0, 1), temperature) == pytest.approx(float(p @ shares))
        last = np.array([0.0, 0.0, 0.0, 2 / 3, 1.0])  # with 2 alone
        assert f1_to_expect(scores, with_(scores, 2, 2), temperature) == pytest.approx(float(p @ last))
    far = scores + 1e4
    assert f1_to_expect(far, with_(far, 0, 1), 1.0) == pytest.approx(f1_to_expect(scores, with_(scores, 0, 1), 1.0))


def with_(scores: NDArray[np.float64], start: int, end: int) -> NDArray[np.float64]:
    return overlaps(["Ada", "met", "Babbage"], scores.shape, start, end)


@given(
    words=st.lists(st.sampled_from(["the", "The", "a", "Cat", "cat", "sat", ".", ",", "1,000", "…"]), min_size=1),
    longest=st.integers(1, 6),
    data=st.data(),
)
def test_overlaps_are_the_f1_that_answers_are_scored_by(words: list[str], longest: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start, min(start + longest, len(words)) - 1))
    found = overlaps(words, (len(words), longest), start, end)
    answer = " ".join(words[start : end + 1])
    if not normalize(answer):
        assert found[start, end - start] == 1.0  # as good as itself, and all of its tokens count
        return
    for i in range(len(words)):
        for length in range(1, min(longest, len(words) - i) + 1):
            expected = f1(" ".join(words[i : i + length]), [answer])
            assert found[i, length - 1] == pytest.approx(expected)


def test_large_logits_neither_overflow_nor_vanish() -> None:
    logits = np.array([1e4, 1e4, -1e30], np.float32)
    np.testing.assert_allclose(log_softmax(logits)[:2], [-np.log(2)] * 2)
    assert log_sum(np.array([])) == -np.inf
