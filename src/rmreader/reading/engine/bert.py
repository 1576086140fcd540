"""A BERT encoder as an ONNX graph.

It reads one sequence, nothing padded, from its embeddings to the mix of all its layers.

In 8 bits every layer is one operator of ``c/``, whose ``encoder.h`` says how it works; else it is
made of ONNX Runtime's own operators, in float.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.readers.weights import Weights
from rmreader.reading.engine import native
from rmreader.reading.engine.layers import Layers
from rmreader.reading.engine.onnxfile import FLOAT, HALF, Graph

Array = NDArray[Any]


@dataclass(frozen=True)
class Bert:
    """An encoder's weights, by the names in its own files, and how they are used."""

    weights: Weights
    heads: int
    epsilon: float
    mix: NDArray[np.float32]
    """The share of every layer, that of the embeddings first."""
    half: bool
    """Round layers to 16 bits before they are mixed, as the cache of frozen vectors has them."""

    @property
    def embeddings(self) -> list[NDArray[np.float32]]:
        """Of pieces, of segments, of places: a piece begins as the sum of its three."""
        kinds = ("word", "token_type", "position")
        return [self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in kinds]


def bert_graph(bert: Bert, in_c: bool = False) -> bytes:
    """The model: ``embeddings`` [s, size] -> ``vectors`` [s, size], the mix of all layers.

    ``in_c`` has every layer as one operator of ``c/``, with products in 8 bits and attentions in
    bfloat16.
    """
    g = Graph()
    layers = Layers(g, bert.weights, in_c)
    size = bert.weights["embeddings.LayerNorm.weight"].shape[0]
    x = g.input("embeddings", "float32", ("s", size))
    vectors = _mixed_in_c(layers, bert, x) if in_c else _mixed(layers, bert, x)
    g.output("vectors", vectors, ("s", size))
    return g.to_bytes()


def _mixed(layers: Layers, bert: Bert, x: str) -> str:
    """The mix of all layers."""
    g = layers.g
    x = _norm(layers, bert, "embeddings", x)

    # Every layer adds its share as soon as it is computed.
    vectors = _share(g, x, bert.mix[0], bert.half)
    for number, share in enumerate(bert.mix[1:]):
        x = _layer(layers, bert, f"encoder.layer.{number}", x)
        own = _share(g, x, share, bert.half)
        vectors = g.add(vectors, own)

    return vectors


def _mixed_in_c(layers: Layers, bert: Bert, x: str) -> str:
    """The same by the operators in C; beside 8 bits, the 16 of ``half`` do not count."""
    g = layers.g
    epsilon = np.array([bert.epsilon], np.float32)
    scale, bias = _scale_and_bias(bert, "embeddings")
    x = g.op("Norm", x, scale, bias, epsilon, domain=native.DOMAIN)
    vectors = _share(g, x, bert.mix[0], half=False)

    for number, share in enumerate(bert.mix[1:]):
        name = f"encoder.layer.{number}"
        weight, _ = _dense(bert, f"{name}.intermediate")
        inner = weight.shape[1]
        inputs = [
            np.array([share], np.float32),
            *_packed(bert, name),
            *_scale_and_bias(bert, f"{name}.attention.output"),
            *_scale_and_bias(bert, f"{name}.output"),
            epsilon,
            np.array([bert.heads, inner], np.int32),
        ]
        x, vectors = g.ops(
            "EncoderLayer",
            2,
            x,
            vectors,
            *inputs,
            domain=native.DOMAIN,
        )

    return vectors


def _packed(bert: Bert, name: str) -> list[Array]:
    """The four products of a layer, as the operator wants them."""
    products = [
        _projection(bert, name),
        _dense(bert, f"{name}.attention.output"),
        _dense(bert, f"{name}.intermediate"),
        _dense(bert, f"{name}.output"),
    ]
    packed: list[Array] = []
    for weight, bias in products:
        packed += native.pack(weight, bias)

    return packed


def _layer(layers: Layers, bert: Bert, name: str, x: str) -> str:
    """Self-attention, then two products with a GELU between them, each added to its input and
    normalised."""
    attended = _attention(layers, bert, name, x)
    x = _residual(layers, bert, f"{name}.attention.output", attended, x)

    weight, bias = _dense(bert, f"{name}.intermediate")
    inner = layers.linear(x, weight, bias)
    # The exact GELU, which ONNX itself has only from opset 20 on.
    activated = layers.g.op("Gelu", inner, domain="com.microsoft")

    return _residual(layers, bert, f"{name}.output", activated, x)


def _attention(layers: Layers, bert: Bert, name: str, x: str) -> str:
    """Self-attention of several heads, x [s, size] -> [s, size]."""
    g = layers.g
    weight, bias = _projection(bert, name)
    size = weight.shape[0] // bert.heads  # of one head

    projected = layers.linear(x, weight, bias)
    q, k, v = g.ops("Split", 3, projected, axis=-1, num_outputs=3)
    # Q and V are [heads, s, size], K is [heads, size, s].
    by_head = np.array([-1, bert.heads, size])
    Q = g.transpose(g.op("Reshape", q, by_head), 1, 0, 2)
    V = g.transpose(g.op("Reshape", v, by_head), 1, 0, 2)
    K = g.transpose(g.op("Reshape", k, by_head), 1, 2, 0)

    logits = g.matmul(Q, K)
    attention = g.softmax(logits)
    attended = g.matmul(attention, V)
    # Back to [s, size], the heads side by side.
    by_word = g.transpose(attended, 1, 0, 2)

    return g.op("Reshape", by_word, np.array([-1, bert.heads * size]))


def _residual(layers: Layers, bert: Bert, name: str, inner: str, x: str) -> str:
    """A product of ``inner``, added to x and normalised."""
    weight, bias = _dense(bert, name)
    product = layers.linear(inner, weight, bias)
    total = layers.g.add(product, x)
    return _norm(layers, bert, name, total)


def _norm(layers: Layers, bert: Bert, name: str, x: str) -> str:
    """Every row of x with mean 0 and variance 1, times a scale, plus a bias."""
    scale, bias = _scale_and_bias(bert, name)
    return layers.g.op(
        "LayerNormalization",
        x,
        scale,
        bias,
        axis=-1,
        epsilon=bert.epsilon,
    )


def _share(g: Graph, x: str, share: np.float32, half: bool) -> str:
    """One layer's part of the mix."""
    if half:
        rounded = g.op("Cast", x, to=HALF)
        x = g.op("Cast", rounded, to=FLOAT)
    return g.mul(x, np.array(share, np.float32))


def _projection(bert: Bert, name: str) -> tuple[Array, Array]:
    """W [in, 3·out] and b of one product for queries, keys and values; the logits' scale is part
    of the queries'."""
    weights = []
    biases = []
    for kind in ("query", "key", "value"):
        own = f"{name}.attention.self.{kind}"
        weight = bert.weights[f"{own}.weight"].T
        bias = bert.weights[f"{own}.bias"]
        if kind == "query":
            size = weight.shape[1] // bert.heads  # of one head
            scale = np.float32(size**-0.5)
            weight = weight * scale
            bias = bias * scale

        weights.append(weight)
        biases.append(bias)

    return np.concatenate(weights, axis=1), np.concatenate(biases)


def _dense(bert: Bert, name: str) -> tuple[Array, Array]:
    """W [in, out] and b of a product."""
    weight = bert.weights[f"{name}.dense.weight"].T
    bias = bert.weights[f"{name}.dense.bias"]
    return weight, bias


def _scale_and_bias(bert: Bert, name: str) -> tuple[Array, Array]:
    """What a norm multiplies by and adds."""
    scale = bert.weights[f"{name}.LayerNorm.weight"]
    bias = bert.weights[f"{name}.LayerNorm.bias"]
    return scale, bias
