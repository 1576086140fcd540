"""Which articles are held out: by the seed alone, and by the seed of the run before where a second stage follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmreader.core.errors import UserError
from rmreader.core.recipe import Training
from rmreader.data.encode import encode_file
from rmreader.data.split import split, split_seed

Write = Callable[..., Path]


def test_a_second_stage_holds_out_what_the_first_did() -> None:
    assert split_seed(Training(seed=3)) == 3
    assert split_seed(Training(seed=3, holdout_seed=5)) == 5
    assert split_seed(Training(seed=3, holdout_seed=0)) == 0


def test_whole_articles_are_held_out_by_the_seed_alone(write: Write, tmp_path: Path) -> None:
    context = "Ada wrote it."
    articles: list[dict[str, Any]] = [
        {
            "paragraphs": [
                {
                    "context": context,
                    "qas": [
                        {"id": f"{k}-{q}", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}
                        for q in range(3)
                    ],
                }
            ]
        }
        for k in range(20)
    ]
    encoded = encode_file(write({"data": articles}), tmp_path / "cache")
    seen = set()
    for seed in range(6):
        learned, held = split(encoded, 0.25, seed)
        assert held is not None
        assert len(held) == 15
        assert {id.split("-")[0] for id in held.ids}.isdisjoint(id.split("-")[0] for id in learned.ids)
        assert sorted(learned.ids + held.ids) == sorted(encoded.ids)
        again = split(encoded, 0.25, seed)[1]
        assert again is not None
        assert again.ids == held.ids
        seen.add(tuple(held.ids))
    assert len(seen) == 6
    assert split(encoded, 0.0, 1)[1] is None
    with pytest.raises(UserError, match="leaves none to learn from"):
        split(encoded, 0.99, 1)
