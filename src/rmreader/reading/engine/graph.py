"""The network of ``model/`` as an ONNX graph, Eq. 12-16 from input vectors to pointers, built from
a reader's weights.

It reads one question and one passage. Nothing is padded, so nothing needs a mask, and other
questions cannot touch an answer; on a CPU a batch would gain little, so several questions run side
by side in threads instead. The arithmetic is that of ``model/``, arranged for one processor: what
only the question decides is multiplied once, matrices that meet the same vectors are one, and Eᵀ
and Bᵀ take the place of E and B, so that the softmaxes that attend run along rows. ``in_c`` has
8-bit products, bfloat16 attentions and LSTM steps, by the operators of ``c/``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.recipe import NetworkConfig
from rmreader.readers.weights import Weights
from rmreader.reading.engine import native
from rmreader.reading.engine.layers import FoldedFusion, Layers, unknown_setting
from rmreader.reading.engine.onnxfile import FLOAT, Graph

Array = NDArray[Any]

Logits = tuple[str, str]  # names of the logits of one block, turned: Eᵀ [m, n] and Bᵀ [m, m]
Softmaxes = tuple[str, str]  # names of the softmaxes of some logits, along rows and down columns

EXCLUDED = -1e4  # logit of a word towards itself where it is left out, as in model/attention.py


def reader_graph(
    weights: Weights,
    config: NetworkConfig,
    attention: bool = False,
    in_c: bool = False,
) -> bytes:
    """The model: ``question`` [n, D] and ``context`` [m, D], input vectors -> logits ``start`` and
    ``end`` [m].

    Where the network has it, the logit ``none`` [1] of there being no answer comes after them.
    ``attention`` adds E [n, m] and B [m, m] of every block, unnormalised: ``E1``, ``B1``, ``E2``, …
    """
    g = Graph()
    width = weights["encoder.lstm.weight_ih"].shape[2]
    question = g.input("question", "float32", ("n", width))
    context = g.input("context", "float32", ("m", width))

    # The operators in C keep their attentions to themselves.
    layers = Layers(g, weights, in_c=in_c and not attention)
    pointed, rounds = network(layers, config, question, context)

    g.output("start", pointed[0], ("m",))
    g.output("end", pointed[1], ("m",))
    if config.no_answer:
        g.output("none", pointed[2], (1,))

    if attention:
        # As the paper has them: question rows, context columns.
        for number, (Et, Bt) in enumerate(rounds, start=1):
            g.output(f"E{number}", g.transpose(Et), ("n", "m"))
            g.output(f"B{number}", g.transpose(Bt), ("m", "m"))

    return g.to_bytes()


def network(
    layers: Layers,
    config: NetworkConfig,
    question: str,
    context: str,
) -> tuple[list[str], list[Logits]]:
    """Input vectors [n, D] and [m, D] -> logits of start and end [m], and of no answer [1] if the
    network has it; the attentions of every round, where they are computed outside C."""
    # Eq. 12
    V = layers.bilstm("encoder.lstm", question)
    U = layers.bilstm("encoder.lstm", context)

    if aligns_in_c(layers, config):
        R = _aligner_in_c(layers, config, U, V)
        rounds: list[Logits] = []
    else:
        R, rounds = _aligner(layers, config, U, V)

    return point(layers, config, R, V), rounds


def _aligner(layers: Layers, config: NetworkConfig, U: str, V: str) -> tuple[str, list[Logits]]:
    """All blocks of Eq. 14: R [m, 2d] of the last one, and every round's logits."""
    other = _off_diagonal(layers.g, U)
    R = U
    S = ""  # softmax(B_:j) of the round before
    Zs: list[str] = []
    rounds: list[Logits] = []

    for t in range(config.blocks):
        name = f"aligner.blocks.{t}"
        past = rounds[-1] if rounds and config.reattention else None
        match config.align:
            case "both":
                H, Et = align_question(layers, config, name, R, V, past, S)
                Z, Bt, S = align_self(layers, config, name, H, past, S, other)
            case "interactive":
                H, Et = align_question(layers, config, name, R, V, past, S)
                Z = H
                Bt = _zeros(layers, R, R)
            case "self":
                H = R
                Et = _zeros(layers, R, V)
                Z, Bt, S = align_self(layers, config, name, H, past, S, other)
            case unknown:
                raise unknown_setting("network.align", unknown)

        rounds.append((Et, Bt))
        Zs.append(Z)
        # Evidence collection: what the next block reads.
        R = _evidence(layers, config, t, Zs)

    return R, rounds


def _aligner_in_c(layers: Layers, config: NetworkConfig, U: str, V: str) -> str:
    """All blocks of Eq. 14 by the operators in C: R [m, 2d] of the last one."""
    R = U
    Zs: list[str] = []
    E: Softmaxes = ("", "")
    B: Softmaxes = ("", "")

    for t in range(config.blocks):
        before = B[0]  # both alignments of a block read the same round before
        H, E = align_in_c(layers, config, t, ("E", "H"), R, V, before, E[1])
        Z, B = align_in_c(layers, config, t, ("B", "Z"), H, H, before, B[1])
        Zs.append(Z)
        R = _evidence(layers, config, t, Zs)

    return R


def _evidence(layers: Layers, config: NetworkConfig, t: int, Zs: list[str]) -> str:
    """The BiLSTM of block t; the last block's reads [z¹; z²; …; zᵗ]."""
    is_last = t > 0 and t == config.blocks - 1
    Z = layers.g.concat(*Zs) if is_last else Zs[-1]
    return layers.bilstm(f"aligner.blocks.{t}.evidence", Z)


def _zeros(layers: Layers, a: str, b: str) -> str:
    """The logits of an alignment that a network does not have: 0 between any two words."""
    g = layers.g
    shaped = g.op("Gemm", a, b, transB=1)
    return g.mul(shaped, _number(0))


def align_question(
    layers: Layers,
    config: NetworkConfig,
    name: str,
    R: str,
    V: str,
    past: Logits | None,
    S: str,
) -> tuple[str, str]:
    """Interactive alignment: H [m, 2d] and Eᵀ.

    ``S`` is softmax(B_:j) of the round before, word j along row j.
    """
    g = layers.g
    fusion = FoldedFusion.of(layers.w, f"{name}.fusion_H", config)

    # Eq. 1
    v, u, both = layers.similarity(config, f"{name}.similarity_E", V, R, fusion.x)
    Et = g.op("Gemm", u, v, transB=1)
    if past is not None:
        # Eq. 4; softmax(E_i:) runs down the columns of Eᵀ
        overlapping = g.softmax(past[0], axis=0)
        gamma = float(layers.w[f"{name}.gamma_E"])
        Et = g.op("Gemm", S, overlapping, Et, alpha=gamma)

    # Fusion of R with ṽ, whose linear parts are summed in ``both``.
    attention = g.softmax(Et)
    if fusion.mul is not None:
        attended = g.matmul(attention, V)
        product = g.mul(R, attended)
        both = g.add(both, layers.linear(product, fusion.mul))

    # (Wy−Ws)ṽ + b is a mean of what the question's words give, because attentions sum to 1.
    given = layers.linear(V, fusion.y, fusion.bias)
    both = g.op("Gemm", attention, given, both)
    return fusion.fuse(layers, R, both), Et


def align_self(
    layers: Layers,
    config: NetworkConfig,
    name: str,
    H: str,
    past: Logits | None,
    S: str,
    other: str,
) -> tuple[str, str, str]:
    """Self alignment: Z [m, 2d], Bᵀ and its softmax along rows.

    ``other`` is 1 off the diagonal and 0 on it.
    """
    g = layers.g
    fusion = FoldedFusion.of(layers.w, f"{name}.fusion_Z", config)

    h1, h2, both = layers.similarity(config, f"{name}.similarity_B", H, H, fusion.x)
    Bt = g.op("Gemm", h2, h1, transB=1)
    if past is not None:
        # Eq. 5
        overlapping = g.softmax(past[1], axis=0)
        gamma = float(layers.w[f"{name}.gamma_B"])
        Bt = g.op("Gemm", S, overlapping, Bt, alpha=gamma)

    Bt = _without_diagonal(g, config, Bt, other)
    S = g.softmax(Bt)

    # Fusion of H with h̃.
    y = g.matmul(S, H)
    W = fusion.y
    if fusion.mul is not None:
        y = g.concat(y, g.mul(H, y))
        W = np.concatenate([fusion.y, fusion.mul])

    both = g.add(both, layers.linear(y, W, fusion.bias))
    return fusion.fuse(layers, H, both), Bt, S


def _without_diagonal(g: Graph, config: NetworkConfig, Bt: str, other: str) -> str:
    """The indicator of Eq. 2 on Bᵀ."""
    match config.diagonal:
        case "none":
            return Bt
        case "zero":
            return g.mul(Bt, other)
        case "mask":
            zeroed = g.mul(Bt, other)
            diagonal = g.sub(_number(1), other)
            return g.add(zeroed, g.mul(diagonal, _number(EXCLUDED)))
        case unknown:
            raise unknown_setting("network.diagonal", unknown)


def aligns_in_c(layers: Layers, config: NetworkConfig) -> bool:
    """Whether the operators in C compute this network's alignments: the paper's, not every one."""
    return (
        layers.in_c
        and config.attention == "relu"
        and config.align == "both"
        and config.diagonal == "zero"
        and config.fusion == "highway"
        and config.fusion_mul
    )


def align_in_c(
    layers: Layers,
    config: NetworkConfig,
    t: int,
    letters: tuple[str, str],
    x: str,
    other: str,
    S: str,
    down: str,
) -> tuple[str, Softmaxes]:
    """Either alignment, of ``x`` with ``other`` (itself, in self alignment): two products and one
    operator. Beside its output, the softmaxes of its logits, as the next round wants them."""
    name = f"aligner.blocks.{t}"
    logits, out = letters

    fusion = FoldedFusion.of(layers.w, f"{name}.fusion_{out}", config)
    assert fusion.mul is not None
    W1, W2 = (weight.T for weight in layers.w[f"{name}.similarity_{logits}.weight"])
    width = W1.shape[1]

    # What meets x is one product; in self alignment, the other side of the similarity too.
    is_self = x == other
    if is_self:
        joined = layers.linear(x, np.concatenate([W2, fusion.x, W1], axis=1))
        keys = joined
        at = width + fusion.x.shape[1]
    else:
        joined = layers.linear(x, np.concatenate([W2, fusion.x], axis=1))
        keys = layers.linear(other, W1)
        at = 0

    # Where the operator finds its parts in the columns of both products.
    places = np.array([0, at, width, width, is_self], np.int32)
    gamma = _next_gamma(layers.w, config, t, logits)

    W = native.pack(np.concatenate([fusion.y, fusion.mul]), fusion.bias)

    past = (S, down) if S and config.reattention else ()
    kind = "Realign" if past else "Align"  # with reattention, Eq. 4-5, or without
    inputs = (joined, keys, other, x, places, gamma, *W, *past)
    o, along, down = layers.g.ops(kind, 3, *inputs, domain=native.DOMAIN)

    return o, (along, down)


def _next_gamma(w: Weights, config: NetworkConfig, t: int, logits: str) -> Array:
    """γ of the block after block t, which its softmaxes are multiplied by; 0 where nothing is."""
    if config.reattention and t + 1 < config.blocks:
        return np.array([w[f"aligner.blocks.{t + 1}.gamma_{logits}"]], np.float32)
    return np.zeros(1, np.float32)


def point(layers: Layers, config: NetworkConfig, R: str, V: str) -> list[str]:
    """The answer pointer: logits of Eq. 15 and of Eq. 16, each [m]; then of no answer [1]."""
    g = layers.g
    w = layers.w

    # The four parts of W[r; s; r∘s; r−s].
    start_parts = np.split(w["pointer.start.W"].T, 4)
    end_parts = np.split(w["pointer.end.W"].T, 4)

    # (Wr+Wd)·r of both, as one product; the operators in C do it themselves.
    linear: list[str | None] = [None, None]
    if not layers.in_c:
        both_parts = [Wr + Wd for Wr, _, _, Wd in (start_parts, end_parts)]
        linear = [*layers.linears(R, both_parts)]

    # The question as one vector s [1, 2d].
    logits = g.op("Gemm", w["pointer.w"], V, transA=1, transB=1)
    alpha = g.softmax(logits)
    s = g.matmul(alpha, V)

    # Eq. 15
    start = _scores(layers, w["pointer.start.w"], start_parts, linear[0], R, s)
    l1 = g.matmul(g.softmax(start), R)  # l = R·p₁

    # s̃ = fusion(s, l)
    fusion = FoldedFusion.of(w, "pointer.fusion", config)
    both = g.op("Gemm", s, fusion.x, fusion.bias)
    both = g.op("Gemm", l1, fusion.y, both)
    if fusion.mul is not None:
        both = g.op("Gemm", g.mul(s, l1), fusion.mul, both)

    fused = fusion.fuse(layers, s, both)

    # Eq. 16
    end = _scores(layers, w["pointer.end.w"], end_parts, linear[1], R, fused)

    pointed = [g.op("Squeeze", logits, np.array([0])) for logits in (start, end)]
    if config.no_answer:
        l2 = g.matmul(g.softmax(end), R)
        pointed.append(_no_answer(layers, l1, l2, s))

    return pointed


def _scores(
    layers: Layers,
    weight: Array,
    parts: list[Array],
    linear: str | None,
    R: str,
    s: str,
) -> str:
    """wᵀ tanh(W[r; s; r∘s; r−s]) for every r of R [1, m]; ``parts`` are the four of W."""
    g = layers.g
    Wr, Ws, Wm, Wd = parts

    # r − s is folded: Wd adds to Wr and takes away from Ws.
    of_s = g.matmul(s, Ws - Wd)
    if linear is None:
        W = native.pack(np.concatenate([Wr + Wd, Wm]))
        return g.op("Point", R, s, of_s, weight, *W, domain=native.DOMAIN)

    product = layers.linear(g.mul(R, s), Wm)
    total = g.add(g.add(linear, product), of_s)
    inner = g.op("Tanh", total)
    return g.op("Gemm", weight, inner, transA=1, transB=1)


def _no_answer(layers: Layers, l1: str, l2: str, s: str) -> str:
    """The logit of there being no answer [1]."""
    g = layers.g
    W, b, weight, c = (layers.w[f"pointer.no_answer.{name}"] for name in ("W", "b", "w", "c"))
    joined = g.concat(l1, l2, s)
    inner = g.op("Tanh", g.op("Gemm", joined, W.T.copy(), b))
    logit = g.op("Gemm", inner, weight, c)
    return g.op("Squeeze", logit, np.array([0]))


def _off_diagonal(g: Graph, U: str) -> str:
    """[m, m]: 0 on the diagonal, 1 off it."""
    size = g.op("Shape", U, start=0, end=1)
    square = g.op("ConstantOfShape", g.concat(size, size, axis=0))
    diagonal = g.op("EyeLike", square, dtype=FLOAT)
    return g.sub(_number(1), diagonal)


def _number(value: float) -> Array:
    """A single number as a constant."""
    return np.array(value, np.float32)
