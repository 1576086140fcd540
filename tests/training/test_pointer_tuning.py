"""Tuning on few examples: the pointer alone learns, and what the reader knew is kept."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from rmreader.core.recipe import load_recipe
from rmreader.data.store import Arrays
from rmreader.model.network import Network
from rmreader.readers.folder import find, open_folder
from rmreader.reading.decision import Decision
from rmreader.training import pointer_tuning
from rmreader.training.tune import Tuned, learns_pointer, settings_for, tune
from rmreader.training.tuning_data import is_ordinary

Taught = list[tuple[pointer_tuning.ReadFeed, Arrays]]


@pytest.fixture(scope="module")
def taught() -> Taught:
    """What the pointer was taught in the run of ``tuned``, and of which questions."""
    return []


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, taught: Taught) -> Iterator[Tuned]:
    """`small` learns from 20 rows that a number goes with what it counts."""
    plain = pointer_tuning._taught

    def watched(feed: pointer_tuning.ReadFeed, network: Network) -> Arrays:
        taught.append((feed, plain(feed, network)))
        return taught[-1][1]

    folder = tmp_path_factory.mktemp("pointer")
    with (folder / "mine.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "passage", "answer"])
        things = ["steps", "chairs", "windows", "boats", "lamps"]
        for k in range(20):
            thing = things[k % 5]
            passage = f"House {k} has {k + 3} {thing}. It was painted in 19{k + 40}."
            writer.writerow([f"How many {thing} does house {k} have?", passage, f"{k + 3} {thing}"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pointer_tuning, "_taught", watched)
        yield tune("small", folder / "mine.csv", folder / "run", None, ["training.epochs=2"], False, "cpu")


def test_all_but_the_pointer_stays_as_it_was(tuned: Tuned) -> None:
    before = open_folder("small").weights()
    after = open_folder(tuned.best).weights()
    assert before.keys() == after.keys()
    for name, weights in before.items():
        if not name.startswith("pointer."):
            np.testing.assert_array_equal(after[name], weights, err_msg=name)
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert "pointer.end.W" in changed
    assert "pointer.no_answer.W" in changed


def test_examples_teach_their_labels_and_ordinary_questions_what_the_reader_said(tuned: Tuned, taught: Taught) -> None:
    ((feed, arrays),) = taught
    encoded = feed.encoded
    kinds = Counter[str]()
    for number, id in enumerate(encoded.ids):
        place = slice(arrays["bounds"][number], arrays["bounds"][number + 1])
        start = np.exp(arrays["start"][place].astype(float))
        end = np.exp(arrays["end"][place].astype(float))
        odds = float(arrays["no_answer"][number])
        if is_ordinary(id):  # shared between words, as a network does it
            kinds["ordinary"] += 1
            assert 0 < start.max() < 1 or 0 < end.max() < 1
            assert start.sum() == pytest.approx(1, abs=0.01)
            assert abs(odds) < 1000
        elif encoded.start[number] < 0:
            kinds["no answer"] += 1
            assert start.sum() == end.sum() == 0
            assert odds == 1e4
        else:  # one word alone, and surely
            kinds["answer"] += 1
            assert np.flatnonzero(start).tolist() == [encoded.start[number]]
            assert np.flatnonzero(end).tolist() == [encoded.end[number]]
            assert odds == -1e4
    assert min(kinds[kind] for kind in ("ordinary", "no answer", "answer")) >= 3, kinds


def test_its_chances_of_no_answer_are_fitted_to_what_they_were(tuned: Tuned) -> None:
    before = Decision.of(open_folder("small"))
    after = Decision.of(open_folder(tuned.best))
    assert before is not None
    assert after is not None
    assert after.threshold == before.threshold
    assert (after.scale, after.shift) != (before.scale, before.shift)


def test_many_examples_and_readers_that_cannot_refuse_teach_all_of_the_network() -> None:
    recipe = load_recipe(find("small") / "recipe.yaml")
    assert learns_pointer(150, recipe)
    assert not learns_pointer(1000, recipe)
    assert not learns_pointer(150, load_recipe("small"))  # a recipe without a logit of no answer
    few = settings_for(150, recipe, 3)["training"]
    many = settings_for(1000, recipe, 3)["training"]
    assert few["rate"] > many["rate"]
    assert few["epochs"] * 150 / few["batch_size"] < 100
