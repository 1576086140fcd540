"""Windows: nothing left out, nothing twice, every answer whole and with text on both its sides."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.reading.answering.windows import CONTEXT, windows


@given(st.integers(0, 5000), st.integers(1, 150), st.integers(1, 900))
@settings(max_examples=300, deadline=None)
def test_every_start_belongs_to_one_window_that_shows_its_longest_answer(length: int, longest: int, size: int) -> None:
    made = windows(length, longest, size)
    owner = np.zeros(length, int)
    for window in made:
        assert 0 <= window.begin <= window.first < window.last <= window.end <= length
        owner[window.first : window.last] += 1
        assert window.begin == 0 or window.first - window.begin >= CONTEXT
        last_end = min(length, window.last - 1 + longest)
        assert last_end <= window.end
        assert window.end == length or window.end - last_end >= CONTEXT
    assert (owner == 1).all()


@given(st.integers(1, 400))
@settings(max_examples=50, deadline=None)
def test_what_fits_is_one_window(length: int) -> None:
    (only,) = windows(length, 15, 400)
    assert (only.begin, only.end, only.first, only.last) == (0, length, 0, length)


def test_cost_grows_with_length_alone() -> None:
    read = {length: sum(w.end - w.begin for w in windows(length, 15)) for length in (1000, 10_000, 100_000)}
    assert all(total < 1.6 * length for length, total in read.items())
