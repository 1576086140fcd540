"""Decoding: the list of best spans is what brute force over all (i, j) finds."""

from __future__ import annotations

import numpy as np
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.model.masking import MASKED, masked_log_softmax, true_steps
from rmreader.model.spans import top_spans


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 12),
    st.integers(1, 60),
)
def test_top_spans_are_those_of_brute_force(seed: int, lengths: list[int], more: int, longest: int, k: int) -> None:
    torch.manual_seed(seed)
    m = max(lengths) + more
    true = torch.tensor(lengths)
    log_p1, log_p2 = (
        masked_log_softmax(torch.randn(len(lengths), m, dtype=torch.float64) * 2, true_steps(true, m), 1)
        for _ in range(2)
    )
    starts, ends, scores = top_spans(log_p1, log_p2, true, longest, k)
    assert starts.shape == ends.shape == scores.shape == (len(lengths), k)
    for row, length in enumerate(lengths):
        p1, p2 = log_p1[row, :length].exp().tolist(), log_p2[row, :length].exp().tolist()
        expected = reference.all_spans(p1, p2, longest)[:k]
        got = list(zip(starts[row].tolist(), ends[row].tolist(), strict=True))
        assert got[: len(expected)] == [(i, j) for _, i, j in expected]
        np.testing.assert_allclose(scores[row, : len(expected)], np.log([p for p, _, _ in expected]), atol=1e-12)
        assert got[len(expected) :] == [(0, 0)] * (k - len(expected))
        assert (scores[row, len(expected) :] == MASKED).all()


def test_among_equal_scores_the_earlier_span_comes_first_however_the_batch_is_padded() -> None:
    for m in (4, 9, 40):
        lengths = torch.tensor([4, 3])
        flat = masked_log_softmax(torch.zeros(2, m), true_steps(lengths, m), 1)
        starts, ends, _ = top_spans(flat, flat, lengths, 2, 7)
        assert starts[0].tolist() == [0, 0, 1, 1, 2, 2, 3]
        assert ends[0].tolist() == [0, 1, 1, 2, 2, 3, 3]
        assert starts[1].tolist() == [0, 0, 1, 1, 2, 0, 0]


def test_scores_carry_gradients_to_the_pointers() -> None:
    log_p1 = torch.randn(1, 5, requires_grad=True)
    log_p2 = torch.randn(1, 5, requires_grad=True)
    starts, ends, scores = top_spans(log_p1, log_p2, torch.tensor([5]), 15, 1)
    scores.sum().backward()
    assert log_p1.grad is not None
    assert log_p2.grad is not None
    assert log_p1.grad[0].argmax() == starts[0, 0]
    assert log_p2.grad[0].argmax() == ends[0, 0]
