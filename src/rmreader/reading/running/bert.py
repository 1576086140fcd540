"""A BERT encoder as an ONNX graph: one sequence, nothing padded, from its embeddings to the mix of all its layers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rmreader.reading.running.graph import Layers, Weights
from rmreader.reading.running.onnxfile import FLOAT, HALF, Graph


@dataclass(frozen=True)
class Bert:
    """An encoder's weights, by the names in its own files, and how they are used."""

    weights: Weights
    heads: int
    epsilon: float
    mix: NDArray[np.float32]  # the share of every layer, that of the embeddings first
    half: bool  # layers are rounded to 16 bits before they are mixed, as the cache of frozen vectors has them

    @property
    def embeddings(self) -> list[NDArray[np.float32]]:
        """Of pieces, of segments, of places: a piece begins as the sum of its three."""
        return [self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "token_type", "position")]


def bert_graph(bert: Bert, int8: bool = False) -> bytes:
    """The model: ``embeddings`` [s, size] -> ``vectors`` [s, size]."""
    g, size = Graph(), bert.weights["embeddings.LayerNorm.weight"].shape[0]
    g.output("vectors", encode(g, bert, g.input("embeddings", "float32", ("s", size)), int8), ("s", size))
    return g.to_bytes()


def embed(g: Graph, bert: Bert, pieces: str, types: str) -> str:
    """Pieces and their segments [s] -> [s, size]."""
    words, segments, places = bert.embeddings
    length = g.op("Shape", pieces)
    place = g.op("Slice", places, np.array([0]), length, np.array([0]))
    return g.op("Add", g.op("Add", g.op("Gather", words, pieces), g.op("Gather", segments, types)), place)


def encode(g: Graph, bert: Bert, x: str, int8: bool = False) -> str:
    """Embeddings [s, size] -> the mix of all layers [s, size]."""
    layers = Layers(g, bert.weights, int8)
    x = _norm(layers, "embeddings.LayerNorm", x, bert.epsilon)
    vectors = _share(g, x, bert.mix[0], bert.half)
    for number, share in enumerate(bert.mix[1:]):
        x = _layer(layers, f"encoder.layer.{number}", x, bert.heads, bert.epsilon)
        vectors = g.op("Add", vectors, _share(g, x, share, bert.half))
    return vectors


def _layer(layers: Layers, name: str, x: str, heads: int, epsilon: float) -> str:
    """Self-attention, then two products with a GELU between them, each beside its input and normalised."""
    g, w = layers.g, layers.w
    size = w[f"{name}.attention.self.query.weight"].shape[0] // heads
    parts = [
        (f"{name}.attention.self.{part}", scale) for part, scale in (("query", size**-0.5), ("key", 1), ("value", 1))
    ]
    turned = [w[f"{part}.weight"].T * np.float32(scale) for part, scale in parts]
    q, k, v = layers.linears(x, turned, [w[f"{part}.bias"] * np.float32(scale) for part, scale in parts])
    split = np.array([-1, heads, size])
    Q, V = (g.op("Transpose", g.op("Reshape", part, split), perm=[1, 0, 2]) for part in (q, v))  # [heads, s, size]
    K = g.op("Transpose", g.op("Reshape", k, split), perm=[1, 2, 0])
    attended = g.op("MatMul", g.op("Softmax", g.op("MatMul", Q, K), axis=-1), V)
    joined = g.op("Reshape", g.op("Transpose", attended, perm=[1, 0, 2]), np.array([-1, heads * size]))
    x = _beside(layers, f"{name}.attention.output", joined, x, epsilon)
    inner = layers.linear(x, w[f"{name}.intermediate.dense.weight"].T, w[f"{name}.intermediate.dense.bias"])
    return _beside(layers, f"{name}.output", g.op("Gelu", inner, domain="com.microsoft"), x, epsilon)


def _beside(layers: Layers, name: str, inner: str, x: str, epsilon: float) -> str:
    product = layers.linear(inner, layers.w[f"{name}.dense.weight"].T, layers.w[f"{name}.dense.bias"])
    return _norm(layers, f"{name}.LayerNorm", layers.g.op("Add", product, x), epsilon)


def _norm(layers: Layers, name: str, x: str, epsilon: float) -> str:
    scale, bias = layers.w[f"{name}.weight"], layers.w[f"{name}.bias"]
    return layers.g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


def _share(g: Graph, x: str, share: np.float32, half: bool) -> str:
    if half:
        x = g.op("Cast", g.op("Cast", x, to=HALF), to=FLOAT)
    return g.op("Mul", x, np.array(share, np.float32))
