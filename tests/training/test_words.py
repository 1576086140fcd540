"""What teachers said, in a small file: the same distributions again, and of these questions only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.data.batches import crop
from rmreader.data.encode import encode_file
from rmreader.data.store import bounds_of
from rmreader.training.words import LIKELIEST, load_words, save_words

MAX_CONTEXT = 40


def distributions(questions: Any, seed: int) -> dict[str, Any]:
    """Random log-probabilities over the words of every question, peaked as a reader's are."""
    draw = np.random.default_rng(seed)
    lengths = crop(questions, np.arange(len(questions)), MAX_CONTEXT)[1]
    said: dict[str, Any] = {"bounds": bounds_of(lengths)}
    said["no_answer"] = draw.normal(size=len(questions)).astype(np.float32)
    for name in ("start", "end"):
        rows = []
        for length in lengths:
            logits = 4 * draw.normal(size=length)
            rows.append(logits - np.log(np.exp(logits).sum()))
        said[name] = np.concatenate(rows)
    return said


def test_the_likeliest_words_come_back_and_the_rest_shares_what_is_left(tiny: Any, tmp_path: Path) -> None:
    questions = encode_file(tiny.folder / "train.json", tmp_path / "cache")
    said = distributions(questions, 1)
    path = tmp_path / "words.safetensors"
    save_words(path, said, questions, MAX_CONTEXT)
    again = load_words(path, questions, MAX_CONTEXT)

    np.testing.assert_array_equal(again["bounds"], said["bounds"])
    np.testing.assert_allclose(again["no_answer"], said["no_answer"], rtol=1e-3)
    for name in ("start", "end"):
        for begin, end in zip(said["bounds"][:-1], said["bounds"][1:], strict=True):
            before = said[name][begin:end]
            after = again[name][begin:end].astype(np.float64)
            likeliest = np.argsort(-before)[:LIKELIEST]
            np.testing.assert_allclose(after[likeliest], before[likeliest], atol=5e-3)
            assert np.exp(after).sum() == pytest.approx(1, abs=0.01)


def test_words_about_other_questions_are_refused(tiny: Any, tmp_path: Path) -> None:
    questions = encode_file(tiny.folder / "train.json", tmp_path / "cache")
    path = tmp_path / "words.safetensors"
    save_words(path, distributions(questions, 1), questions, MAX_CONTEXT)
    with pytest.raises(UserError, match="about other questions"):
        load_words(path, questions, MAX_CONTEXT + 1)
    with pytest.raises(UserError, match="about other questions"):
        load_words(path, questions.subset(np.arange(len(questions) - 1)), MAX_CONTEXT)
