"""A layer of an encoder in C computes what BERT's equations say, on every kind of processor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rmreader.reading.engine import native
from rmreader.reading.engine.bert import Bert, bert_graph
from rmreader.reading.engine.inputs import session

from .test_native import compiled, half, kinds, many, normal, product8, run, softmax

Floats = NDArray[np.floating[Any]]

EPSILON = 1e-12


def random_bert(layers: int, heads: int, size: int, inner: int, seed: int) -> Bert:
    """An encoder with random weights, of which products keep their size."""
    width = heads * size
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Floats:
        return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def vector(length: int, middle: float = 0.0) -> Floats:
        return rng.normal(middle, 0.2, length).astype(np.float32)

    weights: dict[str, Any] = {}
    norms = ["embeddings.LayerNorm"]
    for number in range(layers):
        name = f"encoder.layer.{number}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        shapes = {f"attention.self.{kind}": (width, width) for kind in ("query", "key", "value")}
        shapes["attention.output.dense"] = (width, width)
        shapes["intermediate.dense"] = (inner, width)
        shapes["output.dense"] = (width, inner)
        for part, shape in shapes.items():
            weights[f"{name}.{part}.weight"] = matrix(*shape)
            weights[f"{name}.{part}.bias"] = vector(shape[0])

    for norm in norms:
        weights[f"{norm}.weight"] = vector(width, middle=1.0)
        weights[f"{norm}.bias"] = vector(width)

    mix = rng.uniform(0.1, 1.0, layers + 1).astype(np.float32)
    return Bert(weights, heads, EPSILON, mix, half=False)


def normalised(x: Floats, w: Any, name: str) -> Floats:
    """Rows with mean 0 and variance 1, scaled, in 64 bits."""
    x = x.astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt(centred.var(axis=1, keepdims=True) + EPSILON)
    return np.asarray(scaled * w[f"{name}.weight"] + w[f"{name}.bias"])


def gelu(x: Floats) -> Floats:
    """x·Φ(x)."""
    erf = np.vectorize(math.erf, otypes=[float])
    return np.asarray(x * 0.5 * (1 + erf(x / math.sqrt(2))))


def slow_layer(x: Floats, w: Any, name: str, heads: int) -> Floats:
    """One layer, head by head and in 64 bits, but for what the operator rounds."""

    def product(x: Floats, part: str, scale: float = 1.0) -> Floats:
        weight = np.float32(scale) * w[f"{name}.{part}.weight"]
        bias = np.float32(scale) * w[f"{name}.{part}.bias"]
        return product8(x, weight.T, bias)

    size = x.shape[1] // heads
    query = product(x, "attention.self.query", size**-0.5)
    key = product(x, "attention.self.key")
    value = product(x, "attention.self.value")

    attended = np.empty_like(query)
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        logits = half(query[:, columns]) @ half(key[:, columns]).T
        attention = softmax(logits, 1)
        attended[:, columns] = attention @ half(value[:, columns])

    output = product(attended, "attention.output.dense")
    x = normalised(x + output, w, f"{name}.attention.output.LayerNorm")
    inner = gelu(product(x, "intermediate.dense"))
    return normalised(x + product(inner, "output.dense"), w, f"{name}.output.LayerNorm")


def slow_vectors(bert: Bert, embeddings: Floats) -> Floats:
    """The mix of all layers."""
    x = normalised(embeddings, bert.weights, "embeddings.LayerNorm")
    vectors = bert.mix[0] * x
    for number, share in enumerate(bert.mix[1:]):
        x = slow_layer(x, bert.weights, f"encoder.layer.{number}", bert.heads)
        vectors = vectors + share * x

    return np.asarray(vectors)


def vectors_in_c(bert: Bert, embeddings: Floats, kind: int, threads: int = 1) -> Floats:
    """The same by the operators of one kind."""
    native.limit(kind)
    reading = session(bert_graph(bert, in_c=True), threads)
    native.limit()
    return np.asarray(reading.run(None, {"embeddings": embeddings})[0])


shapes = {
    "s": st.integers(1, 40),
    "heads": st.integers(1, 5),
    "size": st.integers(1, 35),
    "inner": st.integers(1, 150),
    "seed": st.integers(0, 99),
}


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(**shapes)
@many
def test_a_layer_computes_the_equations(kind: int, s: int, heads: int, size: int, inner: int, seed: int) -> None:
    # With one column or two, a norm makes a last bit into a sign.
    size = max(size, 8)
    bert = random_bert(1, heads, size, inner, seed)
    (embeddings,) = normal(seed, (s, heads * size))
    made = vectors_in_c(bert, embeddings, kind)
    wanted = slow_vectors(bert, embeddings)
    # A number in the middle may be rounded either way, which moves a row by a step.
    assert np.abs(made - wanted).max() < 0.15
    assert np.abs(made - wanted).mean() < 0.01


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_layers_follow_each_other(kind: int) -> None:
    bert = random_bert(12, heads=3, size=16, inner=96, seed=5)
    (embeddings,) = normal(5, (230, 48))
    made = vectors_in_c(bert, embeddings, kind)
    wanted = slow_vectors(bert, embeddings)
    assert np.abs(made - wanted).mean() < 0.02 * np.abs(wanted).mean()
    without_c = session(bert_graph(bert)).run(None, {"embeddings": embeddings})[0]
    assert np.abs(made - without_c).mean() < 0.1 * np.abs(without_c).mean()


@compiled
@given(**shapes)
@many
def test_processors_and_threads_agree_to_the_last_bit(s: int, heads: int, size: int, inner: int, seed: int) -> None:
    bert = random_bert(1, heads, size, inner, seed)
    (embeddings,) = normal(seed, (s, heads * size))
    first = vectors_in_c(bert, embeddings, kinds[0])
    for kind in kinds[1:]:
        np.testing.assert_array_equal(vectors_in_c(bert, embeddings, kind), first)
    np.testing.assert_array_equal(vectors_in_c(bert, embeddings, kinds[-1], threads=2), first)


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_a_long_text_is_read_in_blocks(kind: int) -> None:
    # 512 rows are several blocks of each part, the last ones not whole.
    bert = random_bert(1, heads=2, size=12, inner=40, seed=8)
    (embeddings,) = normal(8, (511, 24))
    made = vectors_in_c(bert, embeddings, kind)
    assert np.abs(made - slow_vectors(bert, embeddings)).mean() < 0.01


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(st.integers(1, 40), st.integers(2, 70), st.floats(1e-3, 1e3), st.integers(0, 99))
@many
def test_a_norm_computes_the_equation(kind: int, rows: int, width: int, size: float, seed: int) -> None:
    x, scale, bias = normal(seed, (rows, width), (width,), (width,))
    weights = {"norm.weight": scale, "norm.bias": bias}
    epsilon = np.array([EPSILON], np.float32)
    (made,) = run(kind, "Norm", np.float32(size) * x, scale, bias, epsilon)
    wanted = normalised(np.float32(size) * x, weights, "norm")
    np.testing.assert_allclose(made, wanted, atol=2e-3)
    assert np.abs(made - wanted).mean() < 1e-5


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_extreme_numbers_stay_finite(kind: int) -> None:
    bert = random_bert(2, heads=2, size=16, inner=48, seed=3)
    for value in (0.0, 1e-20, 1e4, -1e4):
        embeddings = np.full((9, 32), value, np.float32)
        embeddings[:, ::2] *= 2
        assert np.isfinite(vectors_in_c(bert, embeddings, kind)).all()


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_gelu_is_exact_over_its_whole_range(kind: int) -> None:
    """Weights of 1 and inputs that 8 bits hold: what is left of the layer is its GELU."""
    bert = random_bert(1, heads=1, size=8, inner=1, seed=1)
    w = dict(bert.weights)
    layer = "encoder.layer.0"
    for name in ("attention.output.dense", "intermediate.dense"):
        w[f"{layer}.{name}.weight"] = np.zeros_like(w[f"{layer}.{name}.weight"])
        w[f"{layer}.{name}.bias"] = np.zeros_like(w[f"{layer}.{name}.bias"])
    w[f"{layer}.output.dense.weight"] = np.eye(8, 1, dtype=np.float32)
    w[f"{layer}.output.dense.bias"] = np.zeros(8, np.float32)
    for norm in (f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"):
        w[f"{norm}.weight"] = np.ones(8, np.float32)
        w[f"{norm}.bias"] = np.zeros(8, np.float32)

    bert = Bert(w, 1, EPSILON, np.array([0, 1], np.float32), half=False)
    (embeddings,) = normal(2, (2, 8))
    for x in np.linspace(-8, 8, 65):
        w[f"{layer}.intermediate.dense.bias"] = np.array([x], np.float32)
        made = vectors_in_c(bert, embeddings, kind)
        np.testing.assert_allclose(made, slow_vectors(bert, embeddings), atol=1e-5)
