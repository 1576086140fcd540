"""The paper's network in plain NumPy loops: one example at a time, one word at a time, nothing padded.

Written from the equations of the paper (and the design's settlement of what they leave open), not from the torch code,
so that the two can disagree. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def sigmoid(x: Vector) -> Vector:
    return 1.0 / (1.0 + np.exp(-x))


def relu(x: Vector) -> Vector:
    return np.where(x > 0, x, 0.0)


def softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    exponentials = [float(np.exp(value - top)) for value in values]
    return [e / sum(exponentials) for e in exponentials]


# --- LSTM -----------------------------------------------------------------------------------------------------


@dataclass
class Direction:
    """Weights of one direction; gates stacked as input, forget, candidate, output."""

    W: Matrix  # [4H, D]
    U: Matrix  # [4H, H]
    b: Vector  # [4H]


def lstm(xs: Sequence[Vector], p: Direction) -> list[Vector]:
    """Hidden states of a left-to-right LSTM (Hochreiter & Schmidhuber, with forget gates)."""
    H = p.U.shape[1]
    h, c = np.zeros(H), np.zeros(H)
    states = []
    for x in xs:
        a = p.W @ x + p.U @ h + p.b
        i, f, g, o = sigmoid(a[:H]), sigmoid(a[H : 2 * H]), np.tanh(a[2 * H : 3 * H]), sigmoid(a[3 * H :])
        c = f * c + i * g
        h = o * np.tanh(c)
        states.append(h)
    return states


def bilstm(xs: Sequence[Vector], forward: Direction, backward: Direction) -> list[Vector]:
    left = lstm(xs, forward)
    right = lstm(list(xs)[::-1], backward)[::-1]
    return [np.concatenate(pair) for pair in zip(left, right, strict=True)]


def last_states(xs: Sequence[Vector], forward: Direction, backward: Direction) -> Vector:
    """The two last states: having read the last element, and, from the right, having read the first."""
    return np.concatenate([lstm(xs, forward)[-1], lstm(list(xs)[::-1], backward)[-1]])


# --- Attention, Eq. 1-5 ---------------------------------------------------------------------------------------

Projections = tuple[Matrix, Matrix] | None  # W_u and W_v of f; None for the dot product


def f(a: Vector, b: Vector, p: Projections) -> float:
    if p is None:
        return float(sum(x * y for x, y in zip(a, b, strict=True)))
    return float(np.dot(relu(p[0] @ a), relu(p[1] @ b)))


def similarity(V: Sequence[Vector], U: Sequence[Vector], p: Projections) -> Matrix:
    """Eq. 1."""
    return np.array([[f(v, u, p) for u in U] for v in V])


def indicator(B: Matrix, how: str) -> Matrix:
    """1{i≠j} of Eq. 2, 3 and 5: multiplied (the paper), or -inf where a word must not attend to itself at all."""
    B = B.copy()
    for i in range(len(B)):
        if how == "zero":
            B[i, i] *= 0.0
        elif how == "mask" and len(B) > 1:  # the only word of a text has nothing but itself
            B[i, i] = -np.inf
    return B


def reattention_E(f_E: Matrix, E: Matrix, B: Matrix, gamma: float) -> Matrix:
    """Eq. 4, from f(v_i, u_j) and the matrices of the block before."""
    n, m = f_E.shape
    refined = np.zeros((n, m))
    for i in range(n):
        past_context = softmax([E[i, k] for k in range(m)])
        for j in range(m):
            past_self = softmax([B[k, j] for k in range(m)])
            E_tilde = sum(past_context[k] * past_self[k] for k in range(m))
            refined[i, j] = f_E[i, j] + gamma * E_tilde
    return refined


def reattention_B(f_B: Matrix, B: Matrix, gamma: float, diagonal: str) -> Matrix:
    """Eq. 5; the indicator multiplies the whole sum."""
    m = len(f_B)
    refined = np.zeros((m, m))
    for i in range(m):
        row = softmax([B[i, k] for k in range(m)])
        for j in range(m):
            column = softmax([B[k, j] for k in range(m)])
            refined[i, j] = f_B[i, j] + gamma * sum(row[k] * column[k] for k in range(m))
    return indicator(refined, diagonal)


def attend(values: Sequence[Vector], logits: Matrix) -> list[Vector]:
    """values · softmax(X_:j) for every column j."""
    attended = []
    for j in range(logits.shape[1]):
        weights = softmax([logits[i, j] for i in range(len(values))])
        attended.append(sum((w * v for w, v in zip(weights, values, strict=True)), np.zeros(len(values[0]))))
    return attended


# --- Fusion, Eq. 13 -------------------------------------------------------------------------------------------


@dataclass
class FusionWeights:
    W_r: Matrix
    b_r: Vector
    W_g: Matrix | None = None
    b_g: Vector | None = None


def fusion(x: Vector, y: Vector, p: FusionWeights, form: str = "highway", mul: bool = True, sub: bool = True) -> Vector:
    features = [x, y]
    if mul:
        features.append(x * y)
    if sub:
        features.append(x - y)
    together = np.concatenate(features)
    x_tilde = relu(p.W_r @ together + p.b_r)
    if form == "mlp":
        return x_tilde
    assert p.W_g is not None
    assert p.b_g is not None
    g = sigmoid(p.W_g @ together + p.b_g)
    if form == "gate":
        return g * x_tilde
    return g * x_tilde + (1.0 - g) * x


# --- Aligner, Eq. 14 ------------------------------------------------------------------------------------------


@dataclass
class Options:
    """The variants of the ablation table."""

    reattention: bool = True
    diagonal: str = "zero"
    fusion: str = "highway"
    fusion_mul: bool = True
    fusion_sub: bool = True

    def fuse(self, x: Vector, y: Vector, p: FusionWeights) -> Vector:
        return fusion(x, y, p, self.fusion, self.fusion_mul, self.fusion_sub)


@dataclass
class BlockWeights:
    f_E: Projections
    fusion_H: FusionWeights
    f_B: Projections
    fusion_Z: FusionWeights
    evidence: tuple[Direction, Direction]
    gamma_E: float = 0.0
    gamma_B: float = 0.0


@dataclass
class Aligned:
    R: list[Vector]
    Z: list[Vector]
    E: Matrix
    B: Matrix


def align(
    U: Sequence[Vector],
    V: Sequence[Vector],
    p: BlockWeights,
    options: Options,
    past: Aligned | None = None,
    earlier: Sequence[Sequence[Vector]] = (),
) -> Aligned:
    """One aligning block; ``earlier`` are the Z of the blocks before, given to the last block alone."""
    E = similarity(V, U, p.f_E)
    if past is not None and options.reattention:
        E = reattention_E(E, past.E, past.B, p.gamma_E)
    H = [options.fuse(u, v, p.fusion_H) for u, v in zip(U, attend(V, E), strict=True)]
    f_B = similarity(H, H, p.f_B)
    if past is not None and options.reattention:
        B = reattention_B(f_B, past.B, p.gamma_B, options.diagonal)
    else:
        B = indicator(f_B, options.diagonal)
    Z = [options.fuse(h, other, p.fusion_Z) for h, other in zip(H, attend(H, B), strict=True)]
    R = bilstm([np.concatenate(zs) for zs in zip(*earlier, Z, strict=True)], *p.evidence)
    return Aligned(R, Z, E, B)


def iterate(
    U: Sequence[Vector], V: Sequence[Vector], blocks: Sequence[BlockWeights], options: Options
) -> list[Aligned]:
    """R¹ = align¹(U, V); Rᵗ = alignᵗ(Rᵗ⁻¹, V, Eᵗ⁻¹, Bᵗ⁻¹); the last one also takes Z¹ … Zᵗ⁻¹."""
    rounds: list[Aligned] = []
    for t, block in enumerate(blocks):
        last = t == len(blocks) - 1
        rounds.append(
            align(
                rounds[-1].R if rounds else U,
                V,
                block,
                options,
                rounds[-1] if rounds else None,
                [before.Z for before in rounds] if last else [],
            )
        )
    return rounds


# --- Pointer, Eq. 15-16 ---------------------------------------------------------------------------------------


@dataclass
class PointerWeights:
    w: Vector
    W_1: Matrix
    w_1: Vector
    fusion: FusionWeights
    W_2: Matrix
    w_2: Vector


def point(
    R: Sequence[Vector], V: Sequence[Vector], p: PointerWeights, options: Options
) -> tuple[list[float], list[float]]:
    """p₁ and p₂."""
    alpha = softmax([float(np.dot(p.w, v)) for v in V])
    s = sum((a * v for a, v in zip(alpha, V, strict=True)), np.zeros(len(V[0])))
    p1 = softmax([float(np.dot(p.w_1, np.tanh(p.W_1 @ np.concatenate([r, s, r * s, r - s])))) for r in R])
    l = sum((prob * r for prob, r in zip(p1, R, strict=True)), np.zeros(len(R[0])))  # noqa: E741
    s = options.fuse(s, l, p.fusion)
    p2 = softmax([float(np.dot(p.w_2, np.tanh(p.W_2 @ np.concatenate([r, s, r * s, r - s])))) for r in R])
    return p1, p2


def all_spans(p1: Sequence[float], p2: Sequence[float], longest: int) -> list[tuple[float, int, int]]:
    """Every span i ≤ j ≤ i+L−1 with its probability, best first, the earlier first among equals."""
    m = len(p1)
    spans = [(p1[i] * p2[j], i, j) for i in range(m) for j in range(m) if i <= j <= i + longest - 1]
    return sorted(spans, key=lambda span: (-span[0], span[1], span[2]))


# --- Encoder, Eq. 12, and the whole ---------------------------------------------------------------------------


@dataclass
class Word:
    """One word as it stands in a text."""

    vector: Vector
    characters: list[int]
    key: int  # equal for words that match ignoring case
    trained: int = 0  # row of the trained vectors, 0 for none
    pos: int = 0
    ner: int = 0
    layers: Matrix | None = None  # a contextual encoder's layers


@dataclass
class EncoderWeights:
    lstm: tuple[Direction, Direction]
    exact_match: bool = True
    trained: Matrix | None = None
    characters: Matrix | None = None
    character_lstm: tuple[Direction, Direction] | None = None
    pos: Matrix | None = None
    ner: Matrix | None = None
    mix: Vector | None = None
    mix_gamma: float = 1.0


def input_vector(word: Word, other: Sequence[Word], p: EncoderWeights) -> Vector:
    parts: list[Any] = [word.vector if p.trained is None or word.trained == 0 else p.trained[word.trained]]
    if p.characters is not None and p.character_lstm is not None:
        parts.append(last_states([p.characters[c] for c in word.characters], *p.character_lstm))
    if p.exact_match:
        parts.append([1.0 if any(word.key == against.key for against in other) else 0.0])
    if p.pos is not None and p.ner is not None:
        parts += [p.pos[word.pos], p.ner[word.ner]]
    if p.mix is not None and word.layers is not None:
        shares = softmax(list(p.mix))
        parts.append(p.mix_gamma * sum(s * layer for s, layer in zip(shares, word.layers, strict=True)))
    return np.concatenate(parts)


@dataclass
class NetworkWeights:
    encoder: EncoderWeights
    blocks: list[BlockWeights]
    pointer: PointerWeights
    options: Options = field(default_factory=Options)


@dataclass
class Read:
    p1: list[float]
    p2: list[float]
    rounds: list[Aligned]


def read(question: Sequence[Word], context: Sequence[Word], p: NetworkWeights) -> Read:
    """The whole network on one question and its passage."""
    V = bilstm([input_vector(w, context, p.encoder) for w in question], *p.encoder.lstm)
    U = bilstm([input_vector(w, question, p.encoder) for w in context], *p.encoder.lstm)
    rounds = iterate(U, V, p.blocks, p.options)
    return Read(*point(rounds[-1].R, V, p.pointer, p.options), rounds)
