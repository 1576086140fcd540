"""The ways to compute a shipped reader's answers agree: to the last bit in C, and as nearly as 8 bits allow in float.

A sample of dev, spread over all of it; all of it with RMREADER_EXAMPLES=10570. In C no answer may differ, whatever the
processor. Float, for installations without the compiled library, is another precision: over all of dev 1.09 % of its
answers are others (72.71 / 81.67 against 72.66 / 81.63). A sample too small to count that is held to nearly equal
scores.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rmreader.data.squad import read_squad
from rmreader.reading.answers import Answer
from rmreader.reading.engine import native
from rmreader.reading.reader import Reader

COUNT = int(os.environ.get("RMREADER_EXAMPLES", "200"))
IN_FLOAT, ENOUGH = 0.0125, 2000  # the largest share of other answers, and of how many questions it can be told


@pytest.fixture(scope="module")
def pairs(real_data: Path) -> list[tuple[str, str]]:
    every = [(q.text, p.context) for p, q in read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz").questions()]
    return every[:: max(1, len(every) // COUNT)]


def answers(pairs: list[tuple[str, str]]) -> list[Answer]:
    return [found[0] for found in Reader.load("small").ask_many(pairs, always=True)]


def apart(ours: list[Answer], theirs: list[Answer]) -> float:
    return sum(a.text != b.text for a, b in zip(ours, theirs, strict=True)) / len(ours)


@pytest.mark.data
@pytest.mark.skipif(native.why_not() is not None, reason=f"the operators in C do not run here: {native.why_not()}")
def test_every_path_gives_the_same_answers(pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    default = answers(pairs)
    for kind in range(native.best()):  # as on a processor without AVX-512, and on any at all, which is slow
        every = 3 if kind == 0 and len(pairs) < ENOUGH else 1
        native.limit(kind)
        try:
            narrow = answers(pairs[::every])
        finally:
            native.limit()
        assert apart(default[::every], narrow) == 0
        assert [answer.score for answer in default[::every]] == [answer.score for answer in narrow]
    monkeypatch.setenv("RMREADER_NATIVE", "0")  # as without a compiled library: float
    without = answers(pairs)
    moved = np.abs([a.score - b.score for a, b in zip(default, without, strict=True)])
    assert 0 < np.median(moved) < 0.01
    assert moved.max() < 0.6
    assert len(pairs) < ENOUGH or apart(default, without) <= IN_FLOAT
