"""The network of ``model/`` as an ONNX graph: Eq. 12-16 from input vectors to pointers, built from a reader's weights.

The arithmetic is the same, arranged for one processor: what only the question decides is multiplied once, weights that
meet the same vectors are one matrix, and the matrices Eᵀ and Bᵀ are kept instead of E and B, because the softmaxes that
attend then run along rows. With ``int8`` the large products are of 8-bit integers; such a graph reads one question at a
time, because the scale of its activations is that of the whole input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.config import NetworkConfig
from rmreader.reading.onnxfile import FLOAT, INT64, Graph

Array = NDArray[Any]
Weights = Mapping[str, NDArray[np.float32]]

MASKED = np.float32(-1e30)  # added to the logits of padding, as in model/masking.py
EXCLUDED = np.float32(-1e4)  # a word towards itself where it is left out, as in model/attention.py


@dataclass(frozen=True)
class Masks:
    """What is added to logits, 0 or ``MASKED``: [B, 1, n], [B, 1, m] and [B, m, 1]. Empty names: nothing is padded."""

    question: str = ""
    context: str = ""
    context_rows: str = ""


@dataclass(frozen=True)
class Layers:
    """The operations the network is made of, with or without 8-bit products."""

    g: Graph
    w: Weights
    int8: bool

    def linear(self, x: str, weight: Array, bias: Array | None = None) -> str:
        """x·W + b, for W [in, out]."""
        if self.int8:
            quantised, scale = quantise(weight)
            extra = ("", bias) if bias is not None else ()
            return self.g.op("DynamicQuantizeMatMul", x, quantised, scale, *extra, domain="com.microsoft")
        product = self.g.op("MatMul", x, np.ascontiguousarray(weight))
        return product if bias is None else self.g.op("Add", product, bias)

    def linears(self, x: str, weights: Sequence[Array], biases: Sequence[Array] | None = None) -> list[str]:
        """x times several matrices, as one product."""
        joined = self.linear(x, np.concatenate(weights, axis=1), np.concatenate(biases) if biases else None)
        sizes = np.array([weight.shape[1] for weight in weights])
        return self.g.ops("Split", len(sizes), joined, sizes, axis=-1) if len(sizes) > 1 else [joined]

    def bilstm(self, name: str, x: str, lengths: str) -> tuple[str, str]:
        """x [B, T, D] -> every state [B, T, 2H] (0 at padding) and the two final ones [B, 2H]."""
        W, R, bias = (self.w[f"{name}.{part}"] for part in ("weight_ih", "weight_hh", "bias"))
        hidden = R.shape[-1]
        W, R, bias = (_gates(array) for array in (W, R, bias))
        x = self.g.op("Transpose", x, perm=[1, 0, 2])
        both = np.concatenate([bias, np.zeros_like(bias)], axis=1)  # ONNX keeps two biases; ours is one
        about: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional"}
        if self.int8:
            (Wq, Ws), (Rq, Rs) = (quantise(weight.transpose(0, 2, 1)) for weight in (W, R))
            Wz, Rz = (np.zeros(scale.shape, np.int8) for scale in (Ws, Rs))
            inputs = (x, Wq, Rq, both, lengths, "", "", "", Ws, Wz, Rs, Rz)
            y, last = self.g.ops("DynamicQuantizeLSTM", 2, *inputs, domain="com.microsoft", **about)
        else:
            y, last = self.g.ops("LSTM", 2, x, W, R, both, lengths, **about)
        states = self.g.op("Transpose", y, perm=[2, 0, 1, 3])  # from [T, 2, B, H]
        final = self.g.op("Transpose", last, perm=[1, 0, 2])  # from [2, B, H]
        shape = np.array([0, 0, 2 * hidden])
        return self.g.op("Reshape", states, shape), self.g.op("Reshape", final, shape[1:])

    def softmax(self, logits: str, mask: str, axis: int = -1) -> str:
        """Softmax over what is not masked."""
        return self.g.op("Softmax", self.masked(logits, mask), axis=axis)

    def masked(self, logits: str, mask: str) -> str:
        """The logits, far down at padding."""
        return self.g.op("Add", logits, mask) if mask else logits

    def turned(self, x: str) -> str:
        """[B, s, t] -> [B, t, s]."""
        return self.g.op("Transpose", x, perm=[0, 2, 1])


@dataclass(frozen=True)
class Fusion:
    """Eq. 13 with W[x; y; x∘y; x−y] as (Wx+Ws)x + (Wy−Ws)y + Wm(x∘y); matrices are [in, out], W_r beside W_g."""

    x: Array
    y: Array
    mul: Array | None
    bias: Array
    form: str

    @staticmethod
    def of(w: Weights, name: str, config: NetworkConfig) -> Fusion:
        """Fold the weights of one fusion."""
        weight = w[f"{name}.weight"].T
        parts = list(np.split(weight, 2 + config.fusion_mul + config.fusion_sub))
        x, y, *rest = parts
        if config.fusion_sub:
            difference = rest.pop()
            x, y = x + difference, y - difference
        return Fusion(x, y, rest.pop() if config.fusion_mul else None, w[f"{name}.bias"], config.fusion)

    def fuse(self, g: Graph, x: str, both: str) -> str:
        """o from x and the sum of the three products."""
        if self.form == "mlp":
            return g.op("Relu", both)
        r, gate = g.ops("Split", 2, both, axis=-1, num_outputs=2)
        candidate, gate = g.op("Relu", r), g.op("Sigmoid", gate)
        if self.form == "gate":
            return g.op("Mul", gate, candidate)
        return g.op("Add", x, g.op("Mul", gate, g.op("Sub", candidate, x)))


@dataclass(frozen=True)
class Pointed:
    """Names of the network's outputs: logits of start and end [B, m], and Eᵀ [B, m, n], Bᵀ [B, m, m] of each round."""

    start: str
    end: str
    rounds: list[tuple[str, str]]


def network(
    layers: Layers, config: NetworkConfig, question: str, context: str, lengths: tuple[str, str], masks: Masks
) -> Pointed:
    """The whole network on input vectors question [B, n, D] and context [B, m, D]; ``lengths`` are empty unpadded."""
    V, _ = layers.bilstm("encoder.lstm", question, lengths[0])
    U, _ = layers.bilstm("encoder.lstm", context, lengths[1])
    R, rounds = align(layers, config, U, V, lengths[1], masks)
    start, end = point(layers, config, R, V, masks)
    return Pointed(start, end, rounds)


def align(
    layers: Layers, config: NetworkConfig, U: str, V: str, lengths: str, masks: Masks
) -> tuple[str, list[tuple[str, str]]]:
    """The iterative aligner, Eq. 14: R of the last block, and (Eᵀ, Bᵀ) of every block."""
    g, w = layers.g, layers.w
    fusions = [Fusion.of(w, f"aligner.blocks.{t}.fusion_H", config) for t in range(config.blocks)]
    relu = config.attention == "relu"
    # for every block, what it needs of the question: W₁v, and the part of the fusion that is linear in the attended
    # question (its bias too, because attentions sum to 1)
    matrices: list[Array] = []
    biases: list[Array] = []
    for t, fusion in enumerate(fusions):
        if relu:
            matrices.append(w[f"aligner.blocks.{t}.similarity_E.weight"][0].T)
            biases.append(np.zeros(matrices[-1].shape[1], np.float32))
        matrices.append(fusion.y)
        biases.append(fusion.bias)
    asked = layers.linears(V, matrices, biases)
    size = g.op("Shape", U, start=1, end=2)
    diagonal = g.op("EyeLike", g.op("ConstantOfShape", g.op("Concat", size, size, axis=0)), dtype=FLOAT)
    other = g.op("Sub", np.float32(1).reshape(()), diagonal)
    R, Zs, rounds, S = U, list[str](), list[tuple[str, str]](), ""
    for t, fusion in enumerate(fusions):
        name = f"aligner.blocks.{t}"
        reattend = config.reattention and t > 0
        # interactive alignment
        if relu:
            v1 = g.op("Relu", asked.pop(0))
            u2, both = layers.linears(R, [w[f"{name}.similarity_E.weight"][1].T, fusion.x])
            Et = g.op("MatMul", g.op("Relu", u2), layers.turned(v1))  # Eq. 1
        else:
            (both,) = layers.linears(R, [fusion.x])
            Et = g.op("MatMul", R, layers.turned(V))
        if reattend:  # Eq. 4: the past softmax(E_i:) runs along the columns of Eᵀ
            overlap = g.op("MatMul", S, layers.softmax(rounds[-1][0], masks.context_rows, axis=-2))
            Et = g.op("Add", Et, g.op("Mul", overlap, w[f"{name}.gamma_E"]))
        attention = layers.softmax(Et, masks.question)
        both = g.op("Add", both, g.op("MatMul", attention, asked.pop(0)))
        if fusion.mul is not None:
            both = g.op("Add", both, layers.linear(g.op("Mul", R, g.op("MatMul", attention, V)), fusion.mul))
        H = fusion.fuse(g, R, both)
        # self alignment
        fusion = Fusion.of(w, f"{name}.fusion_Z", config)
        if relu:
            W1, W2 = w[f"{name}.similarity_B.weight"]
            h1, h2, both = layers.linears(H, [W1.T, W2.T, fusion.x])
            Bt = g.op("MatMul", g.op("Relu", h2), layers.turned(g.op("Relu", h1)))
        else:
            (both,) = layers.linears(H, [fusion.x])
            Bt = g.op("MatMul", H, layers.turned(H))
        if reattend:  # Eq. 5
            overlap = g.op("MatMul", S, layers.softmax(rounds[-1][1], masks.context_rows, axis=-2))
            Bt = g.op("Add", Bt, g.op("Mul", overlap, w[f"{name}.gamma_B"]))
        if config.diagonal != "none":
            Bt = g.op("Mul", Bt, other)  # Eq. 2
        if config.diagonal == "mask":
            Bt = g.op("Add", Bt, g.op("Mul", diagonal, EXCLUDED.reshape(())))
        S = layers.softmax(Bt, masks.context)
        attended = g.op("MatMul", S, H)
        y, W = attended, fusion.y
        if fusion.mul is not None:
            y, W = g.op("Concat", y, g.op("Mul", H, attended), axis=-1), np.concatenate([fusion.y, fusion.mul])
        Z = fusion.fuse(g, H, g.op("Add", both, layers.linear(y, W, fusion.bias)))
        # evidence collection
        Zs.append(Z)
        rounds.append((Et, Bt))
        last = t == config.blocks - 1
        R, _ = layers.bilstm(f"{name}.evidence", g.op("Concat", *Zs, axis=-1) if last and t else Z, lengths)
    return R, rounds


def point(layers: Layers, config: NetworkConfig, R: str, V: str, masks: Masks) -> tuple[str, str]:
    """The answer pointer: logits of Eq. 15 and of Eq. 16, each [B, m]."""
    g, w = layers.g, layers.w
    alpha = layers.softmax(layers.turned(g.op("MatMul", V, w["pointer.w"])), masks.question)
    s = g.op("MatMul", alpha, V)  # [B, 1, 2d]
    start = _scores(layers, "pointer.start", R, s, masks)
    l = g.op("MatMul", g.op("Softmax", start, axis=-1), R)  # noqa: E741 (the paper's name)
    fusion = Fusion.of(w, "pointer.fusion", config)
    both = g.op("Add", g.op("MatMul", s, fusion.x), g.op("Add", g.op("MatMul", l, fusion.y), fusion.bias))
    if fusion.mul is not None:
        both = g.op("Add", both, g.op("MatMul", g.op("Mul", s, l), fusion.mul))
    end = _scores(layers, "pointer.end", R, fusion.fuse(g, s, both), masks)
    flat = np.array([1])
    return g.op("Squeeze", start, flat), g.op("Squeeze", end, flat)


def _scores(layers: Layers, name: str, R: str, s: str, masks: Masks) -> str:
    """wᵀ tanh(W[r; s; r∘s; r−s]) for every context word, [B, 1, m]: s is one vector, so W becomes one of its own."""
    g = layers.g
    Wr, Ws, Wm, Wd = np.split(layers.w[f"{name}.W"].T, 4)
    own = g.op("Add", g.op("Mul", layers.turned(s), np.ascontiguousarray(Wm)), Wr + Wd)
    inner = g.op("Add", g.op("MatMul", R, own), g.op("MatMul", s, Ws - Wd))
    logits = g.op("MatMul", g.op("Tanh", inner), layers.w[f"{name}.w"])
    return layers.masked(layers.turned(logits), masks.context)


def make_masks(g: Graph, question: str, context: str, question_lengths: str, context_lengths: str) -> Masks:
    """The masks of a padded batch, from its input vectors and true lengths."""

    def mask(x: str, lengths: str) -> str:
        steps = g.op("Squeeze", g.op("Shape", x, start=1, end=2))
        places = g.op("Range", np.int64(0).reshape(()), steps, np.int64(1).reshape(()))
        true = g.op("Unsqueeze", g.op("Cast", lengths, to=INT64), np.array([1, 2]))
        padding = g.op("Cast", g.op("GreaterOrEqual", places, true), to=FLOAT)
        return g.op("Mul", padding, MASKED.reshape(()))

    of_context = mask(context, context_lengths)
    return Masks(mask(question, question_lengths), of_context, g.op("Transpose", of_context, perm=[0, 2, 1]))


def quantise(weight: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """8-bit integers and a scale for each column of the last two axes: weight ≈ integers · scale."""
    scale = np.maximum(np.abs(weight).max(axis=-2), 1e-12) / 127
    return np.rint(weight / scale[..., None, :]).astype(np.int8), scale.astype(np.float32)


def _gates(array: Array) -> Array:
    """Gates i, f, g, o along axis 1 in the order that ONNX has them: i, o, f, g."""
    i, f, g, o = np.split(array, 4, axis=1)
    return np.concatenate([i, o, f, g], axis=1)
