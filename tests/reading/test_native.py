"""The LSTM in C computes what the equations say, in every kind that this processor can, and reads as well."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rmreader.reading import native
from rmreader.reading.engines import OnnxEngine, Pair, Scores
from rmreader.reading.folder import open_folder
from rmreader.text.lexicon import Lexicon

Floats = NDArray[np.floating[Any]]

compiled = pytest.mark.skipif(native.library() is None, reason="the LSTM in C was not compiled here")
kinds = [kind for kind in range(len(native.KINDS)) if native.library() is not None and kind <= native.best()]


def slow(gates: Floats, weight: Floats, rounded: bool = False) -> Floats:
    """The equations, step by step in 64 bits: gates' inputs [T, 2, 4H] -> [T, 2H]; ``rounded``: states to 1/127."""
    steps, _, rows = gates.shape
    states = np.empty((steps, 2, rows // 4))
    for direction in (0, 1):
        h = c = np.zeros(rows // 4)
        for t in range(steps) if direction == 0 else reversed(range(steps)):
            kept = np.floor(h * 127 + 0.5) / 127 if rounded else h
            i, f, g, o = np.split(gates[t, direction].astype(np.float64) + weight[direction] @ kept, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states[t, direction] = h
    return states.reshape(steps, -1)


def sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh(x / 2))


def case(steps: int, hidden: int, size: float, seed: int) -> tuple[Floats, Floats]:
    """Gates' inputs, and weights that 8 bits hold exactly."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-127, 128, (2, 4 * hidden, hidden)).astype(np.float32)
    weight[..., 0] = 127  # so that the scale of a row is what it was made with
    return rng.normal(0, size, (steps, 2, 4 * hidden)).astype(np.float32), weight / 127 / np.float32(np.sqrt(hidden))


def run(gates: Floats, weight: Floats, kind: int) -> Floats:
    ordered = gates[:, :, native.order(weight.shape[2])].astype(np.float32)
    return native.bilstm(ordered, native.pack(weight), kind)


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(st.integers(1, 30), st.integers(1, 130), st.floats(0.01, 30), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_kind_computes_the_equations(kind: int, steps: int, hidden: int, size: float, seed: int) -> None:
    gates, weight = case(steps, hidden, size, seed)
    states = run(gates, weight, kind)
    # a state may be rounded the other way where it lies in the middle, which moves what follows by up to a step
    np.testing.assert_allclose(states, slow(gates, weight, rounded=True), atol=1e-2)
    np.testing.assert_allclose(states[0, :hidden], slow(gates[:1], weight)[0, :hidden], atol=1e-6)  # no state before
    np.testing.assert_allclose(states, run(gates, weight, 0), atol=1e-2)


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_rounding_costs_little(kind: int) -> None:
    rng = np.random.default_rng(3)
    gates, weight = rng.normal(0, 2, (60, 2, 400)), rng.uniform(-0.1, 0.1, (2, 400, 100))
    difference = np.abs(run(gates, weight, kind) - slow(gates, weight))
    assert difference.max() < 0.01
    assert difference.mean() < 0.001


@compiled
@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("value", [0.0, 1e-30, 50.0, -50.0, 1e30, -1e30, np.inf, -np.inf])
@pytest.mark.parametrize("hidden", [1, 16, 19])
def test_extreme_inputs_give_finite_states(kind: int, value: float, hidden: int) -> None:
    gates = np.full((300, 2, 4 * hidden), value, np.float32)
    gates[::2] *= -1
    states = run(gates, np.full((2, 4 * hidden, hidden), 3.0, np.float32), kind)
    assert np.isfinite(states).all()
    assert np.abs(states).max() <= 1
    np.testing.assert_allclose(states[0, 0], slow(gates[:1, :, :], np.zeros((2, 4 * hidden, hidden)))[0, 0], atol=1e-6)


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_nothing_is_written_beyond_the_states(kind: int) -> None:
    for hidden in (1, 5, 16, 17, 31):
        gates, weight = case(3, hidden, 1.0, hidden)
        whole = run(gates, weight, kind)
        alone = [run(gates[:, [k, k]], weight[[k, k]], kind) for k in (0, 1)]  # each direction beside another neighbour
        np.testing.assert_array_equal(whole[:, :hidden], alone[0][:, :hidden])
        np.testing.assert_array_equal(whole[:, hidden:], alone[1][:, hidden:])


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(st.integers(1, 5), st.integers(1, 50), st.floats(0.01, 100), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_highway_computes_the_equation(kind: int, rows: int, width: int, size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    both, x = (rng.normal(0, size, (rows, columns)).astype(np.float32) for columns in (2 * width, width))
    r, g = np.split(both.astype(np.float64), 2, axis=1)
    wanted = x + sigmoid(g) * (np.maximum(r, 0) - x)
    np.testing.assert_allclose(native.highway(both, x, kind), wanted, atol=2e-6 * max(1, size))


@compiled
def test_a_kind_that_the_processor_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="processor"):
        native.bilstm(np.zeros((1, 2, 4), np.float32), native.pack(np.zeros((2, 4, 1), np.float32)), 99)


def engine(folder: Any, threads: int = 1) -> OnnxEngine:
    return OnnxEngine(open_folder(folder), Lexicon.load(folder), "int8", threads)


def pairs() -> list[Pair]:
    words = ["game", "team", "the", "Denver", "2016", "defeated", "a", "b", "c"]
    return [Pair("", "", (words * 9)[:n], (words[::-1] * 9)[:m]) for n, m in [(1, 1), (7, 40), (30, 1), (9, 77)]]


@compiled
def test_readers_say_nearly_the_same_with_and_without_it(make_reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_reader(hidden=20, blocks=3)
    monkeypatch.setenv("RMREADER_NATIVE", "1")
    in_c = [engine(folder).read(pair) for pair in pairs()]
    monkeypatch.setenv("RMREADER_NATIVE", "0")
    without = [engine(folder).read(pair) for pair in pairs()]
    for ours, theirs in zip(in_c, without, strict=True):
        np.testing.assert_allclose(ours.start, theirs.start, atol=0.15)
        np.testing.assert_allclose(ours.end, theirs.end, atol=0.15)
    if os.environ.get("RMREADER_NATIVE") != "0" and native.why_not() is None:
        assert not np.array_equal(in_c[1].start, without[1].start)  # it was in use


def test_answers_do_not_depend_on_threads_or_company(make_reader: Any) -> None:
    folder = make_reader(hidden=20, blocks=3)
    alone, together = engine(folder), engine(folder, threads=2)
    for _ in range(4):  # both numbers of threads are tried
        for one, two, three in zip(
            map(alone.read, pairs()), map(together.read, pairs()), together.read_many(pairs(), 32), strict=True
        ):
            same(one, two)
            same(one, three)


def same(one: Scores, other: Scores) -> None:
    np.testing.assert_array_equal(one.start, other.start)
    np.testing.assert_array_equal(one.end, other.end)


def test_it_is_left_out_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMREADER_NATIVE", "0")
    assert "RMREADER_NATIVE" in (native.why_not() or "")
