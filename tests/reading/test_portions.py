"""Portions: nothing left out, nothing twice, every answer whole and with text on both its sides."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.reading.portions import CONTEXT, portions


@given(st.integers(0, 5000), st.integers(1, 150), st.integers(1, 900))
@settings(max_examples=300, deadline=None)
def test_every_start_belongs_to_one_portion_that_shows_its_longest_answer(length: int, longest: int, size: int) -> None:
    made = portions(length, longest, size)
    owner = np.zeros(length, int)
    for portion in made:
        assert 0 <= portion.begin <= portion.first < portion.last <= portion.end <= length
        owner[portion.first : portion.last] += 1
        assert portion.begin == 0 or portion.first - portion.begin >= CONTEXT
        last_end = min(length, portion.last - 1 + longest)
        assert last_end <= portion.end
        assert portion.end == length or portion.end - last_end >= CONTEXT
    assert (owner == 1).all()
    for before, after in pairwise(made):  # the later one answers from the middle of what both show
        assert before.last == after.first
        assert after.first - after.begin == before.end - after.first == longest + CONTEXT


@given(st.integers(1, 400))
@settings(max_examples=50, deadline=None)
def test_what_fits_is_one_portion(length: int) -> None:
    (only,) = portions(length, 15, 400)
    assert (only.begin, only.end, only.first, only.last) == (0, length, 0, length)


def test_cost_grows_with_length_alone() -> None:
    read = {length: sum(w.end - w.begin for w in portions(length, 15, 400)) for length in (1000, 10_000, 100_000)}
    assert all(total < 1.6 * length for length, total in read.items())
