"""The closer look at passages: all texts at once give what each gives alone, computed plainly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmreader.documents.embedding import shipped_encoder
from rmreader.documents.matching import PieceMatcher

SIZE = 40
TABLE = np.random.default_rng(1).normal(size=(SIZE, 8)).astype(np.float32)
LENGTHS = np.linalg.norm(TABLE, axis=1)
WEIGHTS = np.random.default_rng(2).uniform(0.1, 2, SIZE).astype(np.float32)
PIECES = st.lists(st.integers(0, SIZE - 1), max_size=70)


def matcher(question: list[int]) -> PieceMatcher:
    vector = (WEIGHTS[question] @ TABLE[question]).astype(np.float32)
    vector /= max(float(np.linalg.norm(vector)), 1e-6)
    return PieceMatcher(vector, question, WEIGHTS[question], TABLE, LENGTHS)


def cosine(first: int, second: int) -> float:
    return float(TABLE[first] @ TABLE[second] / LENGTHS[first] / LENGTHS[second])


def plain(question: list[int], text: list[int]) -> tuple[float, float, float]:
    """The three figures of one text, as the module's comment has them."""
    blocks = [text[begin : begin + 16] for begin in range(0, len(text), 16)]
    parts = [blocks[0], *(first + second for first, second in pairwise(blocks))]
    vector = WEIGHTS[question] @ TABLE[question]
    vector /= np.linalg.norm(vector)
    sums = [TABLE[part].sum(0) for part in parts]
    best = max(float(total @ vector / np.linalg.norm(total)) for total in sums)
    worth = [float(WEIGHTS[piece] * LENGTHS[piece]) for piece in question]
    words = max(
        sum(w * max(cosine(piece, other) for other in part) for w, piece in zip(worth, question, strict=True))
        for part in parts
    )
    pairs, all_pairs = 0.0, 0.0
    for k in range(len(question) - 1):
        near = [min(cosine(question[k], a), cosine(question[k + 1], b)) for a, b in pairwise(text)]
        pairs += (worth[k] + worth[k + 1]) * max([0.0, *near])
        all_pairs += worth[k] + worth[k + 1]
    return best, words / sum(worth), pairs / max(all_pairs, 1e-9)


@given(PIECES.filter(len), st.lists(PIECES, max_size=6))
def test_all_texts_at_once_are_as_each_alone(question: list[int], texts: list[list[int]]) -> None:
    matches = matcher(question).match(texts)
    for row, text in enumerate(texts):
        found = (matches.parts[row], matches.words[row], matches.pairs[row])
        expected = plain(question, text) if text else (0.0, 0.0, 0.0)
        assert found == pytest.approx(expected, abs=1e-4)


@given(st.lists(PIECES, max_size=3))
def test_a_question_without_a_piece_finds_nothing(texts: list[list[int]]) -> None:
    matches = matcher([]).match(texts)
    assert not matches.parts.any()
    assert not matches.words.any()
    assert not matches.pairs.any()


def test_words_that_stand_together_and_in_order_count_more() -> None:
    filler = " The harbour is quiet, and boats of all kinds lie there for most of the long winter." * 3
    texts = [
        f"Mira Holt keeps the lamp.{filler}",
        f"Holt and Mira keep the lamp.{filler}",
        f"Mira left.{filler} Holt keeps the lamp.",
    ]
    matches = shipped_encoder().match("Mira Holt", texts)
    assert matches.pairs[0] == pytest.approx(1, abs=1e-4)
    assert matches.pairs[0] > matches.pairs[1]
    assert matches.words[0] == pytest.approx(1, abs=1e-4)
    assert matches.words[0] > matches.words[2]
