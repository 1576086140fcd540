"""The network of ``model/`` as an ONNX graph, Eq. 12-16 from input vectors to pointers, built from a reader's weights.

It reads one question and one passage. Nothing is padded, so nothing needs a mask, and what else is asked cannot touch
an answer; on a CPU a batch would gain little, and several questions run side by side in threads instead. The
arithmetic is that of ``model/``, arranged for one processor: what only the question decides is multiplied once,
matrices that meet the same vectors are one, and Eᵀ and Bᵀ stand for E and B, so that the softmaxes that attend run
along rows. ``in_c`` has 8-bit products, bfloat16 attentions and LSTM steps, by the operators of ``c/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.recipe import NetworkConfig
from rmreader.readers.weights import Weights
from rmreader.reading.engine import native
from rmreader.reading.engine.onnxfile import FLOAT, Graph

Array = NDArray[Any]

Logits = tuple[str, str]  # names of the logits of one block, turned: Eᵀ [m, n] and Bᵀ [m, m]

EXCLUDED = -1e4  # logit of a word towards itself where it is left out, as in model/attention.py


def reader_graph(weights: Weights, config: NetworkConfig, attention: bool = False, in_c: bool = False) -> bytes:
    """The model: ``question`` [n, D] and ``context`` [m, D], input vectors -> logits ``start`` and ``end`` [m].

    Where the network has it, the logit ``none`` [1] of there being no answer comes after them.
    ``attention`` adds E [n, m] and B [m, m] of every block, unnormalised, as ``E1``, ``B1``, ``E2``, …
    """
    g = Graph()
    width = weights["encoder.lstm.weight_ih"].shape[2]
    question, context = g.input("question", "float32", ("n", width)), g.input("context", "float32", ("m", width))
    layers = Layers(g, weights, in_c=in_c and not attention)
    pointed, rounds = network(layers, config, question, context)
    for name, logits in zip(("start", "end", "none"), pointed, strict=False):
        g.output(name, logits, (1,) if name == "none" else ("m",))
    if attention:
        give_rounds(g, rounds)
    return g.to_bytes()


def give_rounds(g: Graph, rounds: Sequence[Logits]) -> None:
    """E [n, m] and B [m, m] of every block as outputs."""
    for number, (Et, Bt) in enumerate(rounds, start=1):
        g.output(f"E{number}", g.op("Transpose", Et), ("n", "m"))
        g.output(f"B{number}", g.op("Transpose", Bt), ("m", "m"))


@dataclass(frozen=True)
class Layers:
    """What the network is made of: float; with 8-bit products by ONNX Runtime (a BERT encoder's); or in C."""

    g: Graph
    w: Weights
    int8: bool = False
    in_c: bool = False

    def linear(self, x: str, weight: Array, bias: Array | None = None) -> str:
        """x·W + b, for W [in, out]."""
        if self.in_c:
            columns = np.array([weight.shape[1]], np.int32)
            return self.g.op("Linear", x, *native.pack(weight, bias), columns, domain=native.DOMAIN)
        if self.int8:
            quantised, scale = native.quantise(weight)
            extra = ("", bias) if bias is not None else ()
            return self.g.op("DynamicQuantizeMatMul", x, quantised, scale, *extra, domain="com.microsoft")
        product = self.g.op("MatMul", x, weight)
        return product if bias is None else self.g.op("Add", product, bias)

    def linears(self, x: str, weights: Sequence[Array], biases: Sequence[Array] | None = None) -> list[str]:
        """x times several matrices, as one product."""
        joined = self.linear(x, np.concatenate(weights, axis=1), np.concatenate(biases) if biases else None)
        sizes = np.array([weight.shape[1] for weight in weights])
        return self.g.ops("Split", len(sizes), joined, sizes, axis=-1) if len(sizes) > 1 else [joined]

    def bilstm(self, name: str, x: str) -> str:
        """x [T, D] -> every state [T, 2H]."""
        if self.in_c:
            order = native.order(self.w[f"{name}.weight_hh"].shape[2])
            W, bias = (np.concatenate(self.w[f"{name}.{part}"][:, order]) for part in ("weight_ih", "bias"))
            packed = native.pack_lstm(self.w[f"{name}.weight_hh"])
            return self.g.op("BiLSTM", self.linear(x, W.T, bias), *packed, domain=native.DOMAIN)
        y, _ = self.lstm(name, self.g.op("Unsqueeze", x, np.array([1])))  # [T, 2, 1, H]
        return self.g.op("Reshape", y, np.array([-1, 2 * self.w[f"{name}.weight_hh"].shape[2]]))

    def lstm(self, name: str, x: str, lengths: str = "") -> tuple[str, str]:
        """x [T, B, D] -> the states [T, 2, B, H] and the final ones [2, B, H] of both directions."""
        W, R, bias = (_gates(self.w[f"{name}.{part}"]) for part in ("weight_ih", "weight_hh", "bias"))
        biases = np.concatenate([bias, np.zeros_like(bias)], axis=1)  # ONNX adds two; ours is one
        about: dict[str, Any] = {"hidden_size": R.shape[2], "direction": "bidirectional"}
        y, last = self.g.ops("LSTM", 2, x, W, R, biases, lengths, **about)
        return y, last

    def similarity(self, name: str, a: str, b: str, extra: Array) -> tuple[str, str, str]:
        """What f(a, b) of Eq. 1 multiplies, relu(W₁a) and relu(W₂b), and b·extra beside them."""
        if f"{name}.weight" not in self.w:  # the plain dot product
            return a, b, self.linear(b, extra)
        W1, W2 = (weight.T for weight in self.w[f"{name}.weight"])
        if a == b:
            left, right, product = self.linears(b, [W1, W2, extra])
        else:
            left = self.linear(a, W1)
            right, product = self.linears(b, [W2, extra])
        return self.g.op("Relu", left), self.g.op("Relu", right), product


@dataclass(frozen=True)
class FoldedFusion:
    """Eq. 13 with W[x; y; x∘y; x−y] as (Wx+Ws)x + (Wy−Ws)y + Wm(x∘y); matrices are [in, out], W_r beside W_g."""

    x: Array
    y: Array
    mul: Array | None
    bias: Array
    form: str

    @staticmethod
    def of(w: Weights, name: str, config: NetworkConfig) -> FoldedFusion:
        """Fold the weights of one fusion."""
        x, y, *rest = np.split(w[f"{name}.weight"].T, 2 + config.fusion_mul + config.fusion_sub)
        if config.fusion_sub:
            difference = rest.pop()
            x, y = x + difference, y - difference
        return FoldedFusion(x, y, rest.pop() if config.fusion_mul else None, w[f"{name}.bias"], config.fusion)

    def fuse(self, layers: Layers, x: str, both: str) -> str:
        """o from x and the sum of the three products."""
        g = layers.g
        if layers.in_c and self.form == "highway":
            return g.op("Highway", both, x, domain=native.DOMAIN)
        if self.form == "mlp":
            return g.op("Relu", both)
        r, gate = g.ops("Split", 2, both, axis=-1, num_outputs=2)
        candidate, gate = g.op("Relu", r), g.op("Sigmoid", gate)
        if self.form == "gate":
            return g.op("Mul", gate, candidate)
        return g.op("Add", x, g.op("Mul", gate, g.op("Sub", candidate, x)))


def network(layers: Layers, config: NetworkConfig, question: str, context: str) -> tuple[list[str], list[Logits]]:
    """Input vectors [n, D] and [m, D] -> logits of start and end [m], and of no answer [1] if it has one; rounds."""
    V, U = layers.bilstm("encoder.lstm", question), layers.bilstm("encoder.lstm", context)  # Eq. 12
    in_c = aligns_in_c(layers, config)
    other = "" if in_c else _off_diagonal(layers.g, U)
    R, Zs, rounds, S = U, list[str](), list[Logits](), ""
    E, B = ("", ""), ("", "")  # the softmaxes of the round before, along rows and down columns, by the operators in C
    for t in range(config.blocks):  # Eq. 14
        name, past = f"aligner.blocks.{t}", rounds[-1] if rounds and config.reattention else None
        if in_c:
            before = B[0]
            H, E = align_in_c(layers, config, t, ("E", "H"), R, V, before, E[1])
            Z, B = align_in_c(layers, config, t, ("B", "Z"), H, H, before, B[1])
        else:
            if config.align == "self":
                H, Et = R, _nothing(layers, R, V)
            else:
                H, Et = align_question(layers, config, name, R, V, past, S)
            if config.align == "interactive":
                Z, Bt = H, _nothing(layers, R, R)
            else:
                Z, Bt, S = align_self(layers, config, name, H, past, S, other)
            rounds.append((Et, Bt))
        Zs.append(Z)
        last = t > 0 and t == config.blocks - 1
        R = layers.bilstm(f"{name}.evidence", layers.g.op("Concat", *Zs, axis=-1) if last else Z)
    return point(layers, config, R, V), rounds


def _nothing(layers: Layers, a: str, b: str) -> str:
    """The logits of an alignment that a network does not have: 0 between any two words."""
    return layers.g.op("Mul", layers.g.op("Gemm", a, b, transB=1), _number(0))


def align_question(
    layers: Layers, config: NetworkConfig, name: str, R: str, V: str, past: Logits | None, S: str
) -> tuple[str, str]:
    """Interactive alignment: H [m, 2d] and Eᵀ; ``S`` is softmax(B_:j) of the round before, word j along row j."""
    g, fusion = layers.g, FoldedFusion.of(layers.w, f"{name}.fusion_H", config)
    v, u, both = layers.similarity(f"{name}.similarity_E", V, R, fusion.x)
    Et = g.op("Gemm", u, v, transB=1)  # Eq. 1
    if past is not None:  # Eq. 4; softmax(E_i:) runs down the columns of Eᵀ
        overlapping = g.op("Softmax", past[0], axis=0)
        Et = g.op("Gemm", S, overlapping, Et, alpha=float(layers.w[f"{name}.gamma_E"]))
    attention = g.op("Softmax", Et, axis=-1)
    if fusion.mul is not None:
        both = g.op("Add", both, layers.linear(g.op("Mul", R, g.op("MatMul", attention, V)), fusion.mul))
    # (Wy−Ws)ṽ + b is a mean of what the question's words give, because attentions sum to 1
    both = g.op("Gemm", attention, layers.linear(V, fusion.y, fusion.bias), both)
    return fusion.fuse(layers, R, both), Et


def align_self(
    layers: Layers, config: NetworkConfig, name: str, H: str, past: Logits | None, S: str, other: str
) -> tuple[str, str, str]:
    """Self alignment: Z [m, 2d], Bᵀ and its softmax along rows; ``other`` is 1 off the diagonal and 0 on it."""
    g, fusion = layers.g, FoldedFusion.of(layers.w, f"{name}.fusion_Z", config)
    h1, h2, both = layers.similarity(f"{name}.similarity_B", H, H, fusion.x)
    Bt = g.op("Gemm", h2, h1, transB=1)
    if past is not None:  # Eq. 5
        Bt = g.op("Gemm", S, g.op("Softmax", past[1], axis=0), Bt, alpha=float(layers.w[f"{name}.gamma_B"]))
    if config.diagonal != "none":
        Bt = g.op("Mul", Bt, other)  # Eq. 2
    if config.diagonal == "mask":
        off = g.op("Sub", _number(1), other)
        Bt = g.op("Add", Bt, g.op("Mul", off, _number(EXCLUDED)))
    S = g.op("Softmax", Bt, axis=-1)
    y = g.op("MatMul", S, H)
    W = fusion.y
    if fusion.mul is not None:
        y, W = g.op("Concat", y, g.op("Mul", H, y), axis=-1), np.concatenate([fusion.y, fusion.mul])
    return fusion.fuse(layers, H, g.op("Add", both, layers.linear(y, W, fusion.bias))), Bt, S


def aligns_in_c(layers: Layers, config: NetworkConfig) -> bool:
    """Whether the operators in C do: for the paper's network they do, not for each of its variants."""
    usual = config.fusion == "highway" and config.fusion_mul and config.diagonal == "zero" and config.align == "both"
    return layers.in_c and usual and "aligner.blocks.0.similarity_E.weight" in layers.w


def align_in_c(
    layers: Layers, config: NetworkConfig, t: int, letters: tuple[str, str], x: str, other: str, S: str, down: str
) -> tuple[str, tuple[str, str]]:
    """Either alignment, of ``x`` with ``other`` (itself, in self alignment): two products and one operator. Beside its
    output, the softmaxes of its logits along rows and down columns, as the next round wants them."""
    name, (logits, out) = f"aligner.blocks.{t}", letters
    fusion = FoldedFusion.of(layers.w, f"{name}.fusion_{out}", config)
    assert fusion.mul is not None
    W1, W2 = (weight.T for weight in layers.w[f"{name}.similarity_{logits}.weight"])
    width, own = W1.shape[1], x == other
    joined = layers.linear(x, np.concatenate([W2, fusion.x, W1] if own else [W2, fusion.x], axis=1))
    keys, at = (joined, width + fusion.x.shape[1]) if own else (layers.linear(other, W1), 0)
    places = np.array([0, at, width, width, own], np.int32)
    gamma = np.array([layers.w.get(f"aligner.blocks.{t + 1}.gamma_{logits}", 0)], np.float32)
    W = native.pack(np.concatenate([fusion.y, fusion.mul]), fusion.bias)
    past = (S, down) if S and config.reattention else ()
    kind = "Realign" if past else "Align"
    o, along, down = layers.g.ops(kind, 3, joined, keys, other, x, places, gamma, *W, *past, domain=native.DOMAIN)
    return o, (along, down)


def point(layers: Layers, config: NetworkConfig, R: str, V: str) -> list[str]:
    """The answer pointer: logits of Eq. 15 and of Eq. 16, each [m]; then that of no answer [1], if there is one."""
    g, w = layers.g, layers.w
    parts = {name: np.split(w[f"pointer.{name}.W"].T, 4) for name in ("start", "end")}  # of [r; s; r∘s; r−s]
    linear = {}
    if not layers.in_c:
        linear = dict(zip(parts, layers.linears(R, [Wr + Wd for Wr, _, _, Wd in parts.values()]), strict=True))

    def scores(name: str, s: str) -> str:
        Wr, Ws, Wm, Wd = parts[name]
        of_s, weight = g.op("MatMul", s, Ws - Wd), w[f"pointer.{name}.w"]
        if layers.in_c:
            W = native.pack(np.concatenate([Wr + Wd, Wm]))
            return g.op("Point", R, s, of_s, weight, *W, domain=native.DOMAIN)
        inner = g.op("Tanh", g.op("Add", g.op("Add", linear[name], layers.linear(g.op("Mul", R, s), Wm)), of_s))
        return g.op("Gemm", weight, inner, transA=1, transB=1)  # [1, m]

    alpha = g.op("Softmax", g.op("Gemm", w["pointer.w"], V, transA=1, transB=1), axis=-1)
    s = g.op("MatMul", alpha, V)  # [1, 2d]
    start = scores("start", s)
    l = g.op("MatMul", g.op("Softmax", start, axis=-1), R)  # noqa: E741 (the paper's name)
    fusion = FoldedFusion.of(w, "pointer.fusion", config)
    both = g.op("Gemm", l, fusion.y, g.op("Gemm", s, fusion.x, fusion.bias))
    if fusion.mul is not None:
        both = g.op("Gemm", g.op("Mul", s, l), fusion.mul, both)
    end = scores("end", fusion.fuse(layers, s, both))
    pointed = [g.op("Squeeze", logits, np.array([0])) for logits in (start, end)]
    if config.no_answer:
        W, b, weight, c = (w[f"pointer.no_answer.{name}"] for name in ("W", "b", "w", "c"))
        l2 = g.op("MatMul", g.op("Softmax", end, axis=-1), R)
        inner = g.op("Tanh", g.op("Gemm", g.op("Concat", l, l2, s, axis=-1), W.T.copy(), b))
        pointed.append(g.op("Squeeze", g.op("Gemm", inner, weight, c), np.array([0])))
    return pointed


def _off_diagonal(g: Graph, U: str) -> str:
    """[m, m]: 0 on the diagonal, 1 off it."""
    size = g.op("Shape", U, start=0, end=1)
    square = g.op("ConstantOfShape", g.op("Concat", size, size, axis=0))
    return g.op("Sub", _number(1), g.op("EyeLike", square, dtype=FLOAT))


def _gates(array: Array) -> Array:
    """Gates i, f, g, o along axis 1 in the order that ONNX has them: i, o, f, g."""
    i, f, g, o = np.split(array, 4, axis=1)
    return np.concatenate([i, o, f, g], axis=1)


def _number(value: float) -> Array:
    return np.array(value, np.float32)
