"""A long text in windows: each word is read where the nearer cut is farthest away."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.text.piece_layout import best_window, windows


@settings(max_examples=500, deadline=None)
@given(counts=st.lists(st.integers(1, 16), min_size=1, max_size=120), room=st.integers(32, 90))
def test_a_word_is_read_where_the_nearer_cut_is_farthest_away(counts: list[int], room: int) -> None:
    spans = windows(np.array(counts), room)
    ends = np.cumsum(counts)
    starts = ends - counts

    def nearer_cut(word: int, begin: int, end: int) -> float:
        """By the definition: where the text itself begins or ends, nothing is cut."""
        left = np.inf if begin == 0 else starts[word] - starts[begin]
        right = np.inf if end == len(counts) else ends[end - 1] - ends[word]
        return float(min(left, right))

    for word, chosen in enumerate(best_window(np.array(counts), spans).tolist()):
        there = {k: nearer_cut(word, *span) for k, span in enumerate(spans) if span[0] <= word < span[1]}
        assert chosen == max(there, key=lambda k: there[k])


def test_the_last_word_of_a_span_is_read_in_the_next() -> None:
    counts = np.ones(20, dtype=np.int32)
    assert windows(counts, 12) == [(0, 12), (8, 20)]
    assert best_window(counts, [(0, 12), (8, 20)]).tolist() == [0] * 10 + [1] * 10
