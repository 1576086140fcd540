"""On real questions the graph answers as torch's network does: a sample, or all of dev with RMREADER_EXAMPLES=10000."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from rmreader.core.recipe import Inputs
from rmreader.data.squad import read_squad
from rmreader.reading.answers import text_of
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import f1

COUNT = int(os.environ.get("RMREADER_EXAMPLES", "60"))


@pytest.mark.data
def test_sentences_as_items_without_stops_are_read_nearly_as_well(real_data: Path) -> None:
    every = [(q, p.context) for p, q in read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz").questions()]
    some, reader = random.Random(3).sample(every, 400), Reader.load("small")
    scores = []
    for bare in (False, True):
        texts = [re.sub(r"\.\s+(?=[A-Z])", "\n\n", passage) if bare else passage for _, passage in some]
        found = reader.ask_many((q.text, text) for (q, _), text in zip(some, texts, strict=True))
        answers = [text_of(answers) for answers in found]
        scores.append(sum(f1(a, [b.text for b in q.answers]) for a, (q, _) in zip(answers, some, strict=True)) / 400)
    print(f"F1 {100 * scores[0]:.1f}, of items {100 * scores[1]:.1f}")
    assert scores[1] > scores[0] - 0.035  # 0.06 less where no stop is read


@pytest.mark.data
@pytest.mark.parametrize("name", ["random", "small"])
def test_answers_equal_the_networks(real_data: Path, make_reader: Any, name: str) -> None:
    model = name if name == "small" else make_reader(hidden=100, blocks=3, inputs=Inputs())
    every = [(q.text, p.context) for p, q in read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz").questions()]
    pairs = random.Random(2).sample(every, min(COUNT, len(every)))
    graph, network = Reader.load(model, precision="float"), Reader.load(model, engine="torch")
    found = zip(pairs, graph.ask_many(pairs, always=True), network.ask_many(pairs, always=True), strict=True)
    for pair, (ours,), (theirs,) in found:
        assert ours.score == pytest.approx(theirs.score, abs=1e-4), pair
        assert ours.confidence == pytest.approx(theirs.confidence, abs=1e-4), pair
        if (ours.start, ours.end) != (theirs.start, theirs.end):  # only where two spans are equal to the last bits
            again = network.ask(*pair, top=2, always=True)
            assert again[0].score == pytest.approx(again[1].score, abs=1e-5), pair
