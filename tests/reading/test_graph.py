"""The graph is the network: same logits, same attentions, for every shape and variant of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.readers.folder import open_folder
from rmreader.readers.weights import network_shapes
from rmreader.reading.engine.engines import EncoderInput, OnnxEngine, Pace
from rmreader.reading.engine.graph import reader_graph
from rmreader.reading.engine.inputs import character_graph
from rmreader.reading.engine.native import quantise
from rmreader.reading.spans import log_softmax
from rmreader.text.tokens import tokenize
from rmreader.training.engine import TorchEngine
from rmreader.training.reader_folder import make_network

TEXTS = [
    ("Who?", "Ada."),
    ("x", "y"),
    ("Which team did the Denver Broncos defeat?", "The Denver Broncos beat the Panthers, 24–10 (in 2016)."),
    ("When was the game played at the stadium of the team?", "It was. " * 20),
]
# what a recipe must say as well
NEEDED = {("align", value): {"reattention": False} for value in ("interactive", "self")}


def variants() -> Iterator[dict[str, Any]]:
    """The paper's network, other sizes of it, and every value that a setting's type allows: a new
    value is here the moment it is in the type, and fails until both engines compute it."""
    yield {"hidden": 13, "blocks": 3}
    yield {"blocks": 1}
    hints = get_type_hints(NetworkConfig, include_extras=True)
    for name, hint in hints.items():
        values = (True, False) if hint is bool else get_args(hint)
        if name == "lstm" or get_origin(hint) not in (Literal, None):
            continue  # a kernel, which changes speed alone; or a number
        for value in values:
            yield {"blocks": 3, **NEEDED.get((name, value), {}), name: value}


VARIANTS = list(variants())


def named(variant: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in variant.items())


def pair(question: str, passage: str) -> EncoderInput:
    return EncoderInput(question, passage, tokenize(question).words, tokenize(passage).words)


def engines(folder: Path, precision: str = "float") -> tuple[OnnxEngine, TorchEngine]:
    opened = open_folder(folder)
    return OnnxEngine(opened, precision, 1), TorchEngine(opened)


def test_every_choice_of_the_network_is_among_the_variants() -> None:
    names = {name for variant in VARIANTS for name in variant}
    assert names >= {"attention", "align", "diagonal", "fusion", "reattention", "no_answer"}
    assert len(VARIANTS) >= 21


@pytest.mark.parametrize("variant", VARIANTS, ids=named)
def test_the_weights_of_a_reader_are_those_of_the_network(make_reader: Any, variant: dict[str, Any]) -> None:
    folder = open_folder(make_reader(**variant))
    network = make_network(folder.recipe, folder.lexicon, folder.contextual)
    own = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert network_shapes(folder.recipe, folder.lexicon, folder.contextual) == own


@pytest.mark.parametrize("variant", VARIANTS, ids=named)
def test_8_bit_products_stay_near_the_network(make_reader: Any, variant: dict[str, Any]) -> None:
    rough, plain = engines(make_reader(**{"hidden": 20, **variant}), "int8")
    one = pair(*TEXTS[2])
    np.testing.assert_allclose(rough.read(one).start, plain.read(one).start, atol=0.3)
    np.testing.assert_allclose(rough.read(one).end, plain.read(one).end, atol=0.3)


@pytest.mark.parametrize("variant", VARIANTS, ids=named)
def test_scores_and_attentions_equal_the_networks(make_reader: Any, variant: dict[str, Any]) -> None:
    onnx, plain = engines(make_reader(**variant))
    for texts in TEXTS:
        one = pair(*texts)
        ours, theirs = onnx.read(one), plain.read(one)
        np.testing.assert_allclose(log_softmax(ours.start), log_softmax(theirs.start), atol=1e-5)
        np.testing.assert_allclose(log_softmax(ours.end), log_softmax(theirs.end), atol=1e-5)
        if ours.none is not None:
            np.testing.assert_allclose(ours.none, theirs.none, atol=1e-5)
        for (E, B), (E_torch, B_torch) in zip(onnx.attend(one), plain.attend(one), strict=True):
            np.testing.assert_allclose(E, E_torch, atol=1e-4)
            np.testing.assert_allclose(B, B_torch, atol=1e-4)


@pytest.mark.parametrize("leave_out", ["characters", "exact_match"])
def test_inputs_that_are_switched_off(make_reader: Any, folder: Path, leave_out: str) -> None:
    table = open_folder(folder).recipe.inputs.vectors
    onnx, plain = engines(make_reader(inputs=Inputs(vectors=table, character_size=5, **{leave_out: False})))
    one = pair(*TEXTS[2])
    np.testing.assert_allclose(onnx.read(one).start, plain.read(one).start, atol=1e-5)


def test_words_with_trained_vectors(make_reader: Any, tmp_path: Path) -> None:
    glove = tmp_path / "vectors.txt"
    glove.write_text("the 0.1 0.2 0.3\ngame 1 -1 0.5\n", encoding="utf-8")
    onnx, plain = engines(make_reader(inputs=Inputs(vectors=str(glove), character_size=3)))
    for texts in (*TEXTS, ("Denver?", "The Broncos and some neverseen word")):
        np.testing.assert_allclose(onnx.read(pair(*texts)).end, plain.read(pair(*texts)).end, atol=1e-5)


@pytest.mark.parametrize("lengths", [(1, 1), (1, 40), (30, 1), (7, 33)])
def test_int8_stays_near_float(make_reader: Any, lengths: tuple[int, int]) -> None:
    folder = make_reader(hidden=20, blocks=3)
    exact, rough = engines(folder)[0], engines(folder, "int8")[0]
    words = ["game", "team", "the", "Denver", "2016", "defeated", "a", "b", "c"]
    n, m = lengths
    one = EncoderInput("", "", (words * 9)[:n], (words[::-1] * 9)[:m])
    np.testing.assert_allclose(rough.read(one).start, exact.read(one).start, atol=0.15)
    assert m == 1 or not np.array_equal(rough.read(one).start, exact.read(one).start)


@given(st.integers(1, 9), st.integers(1, 9), st.floats(1e-3, 1e3))
@settings(max_examples=30, deadline=None)
def test_quantised_weights_are_within_half_a_step(rows: int, columns: int, size: float) -> None:
    weight = (np.random.default_rng(rows).normal(size=(rows, columns)) * size).astype(np.float32)
    integers, scale = quantise(weight)
    assert np.abs(integers * scale - weight).max() <= 0.51 * scale.max()
    assert quantise(np.zeros((2, 2), np.float32))[0].max() == 0


def test_the_file_is_valid_onnx(folder: Path) -> None:
    onnx = pytest.importorskip("onnx")
    opened = open_folder(folder)
    model = onnx.load_from_string(reader_graph(opened.weights(), opened.recipe.network, attention=True))
    onnx.checker.check_model(onnx.load_from_string(character_graph(opened.weights())), full_check=True)
    assert [value.name for value in model.graph.output] == ["start", "end", "E1", "B1", "E2", "B2"]
    onnx.checker.check_model(model, full_check=True)


def test_both_engines_give_the_same_answers_in_batches_of_any_size(folder: Path) -> None:
    onnx, plain = engines(folder)
    pairs = [pair(*texts) for texts in TEXTS * 9]
    alone = [plain.read(one) for one in pairs]
    for found in (plain.read_many(pairs, 32), plain.read_many(pairs, 5), onnx.read_many(pairs, 32)):
        for ours, theirs in zip(found, alone, strict=True):
            np.testing.assert_allclose(log_softmax(ours.start), log_softmax(theirs.start), atol=1e-5)
            np.testing.assert_allclose(log_softmax(ours.end), log_softmax(theirs.end), atol=1e-5)
    assert torch.is_grad_enabled()


def test_the_faster_way_is_taken_until_it_is_slower() -> None:
    pace, costs, taken = Pace(retry=30), [2.0, 1.0], []
    for number in range(300):
        way = pace.choose()
        taken.append(way)
        pace.note(way, costs[way])
        if number == 100:
            costs = [2.0, 5.0]  # the machine has become busy
        if number == 200:
            costs = [2.0, 1.0]
    assert np.mean(taken[10:100]) > 0.85
    assert np.mean(taken[110:200]) < 0.15
    assert np.mean(taken[240:]) > 0.85


def test_a_way_that_is_slow_at_first_is_found_to_be_the_faster_one() -> None:
    pace, before, taken = Pace(), 0, []
    for number in range(400):
        way = pace.choose()
        settled = way == before and number > 20  # at first the second way is slow, and later whenever it begins
        pace.note(way, (2.0, 1.0 if settled else 5.0)[way])
        before = way
        taken.append(way)
    assert np.mean(taken[150:]) > 0.85
