"""What the network's graph is built from: products, LSTMs, similarities and fusions, each as nodes
of an ONNX graph.

A setting that these cannot compute is refused by name, never guessed from the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.core.recipe import NetworkConfig
from rmreader.readers.weights import Weights
from rmreader.reading.engine import native
from rmreader.reading.engine.onnxfile import Graph

Array = NDArray[Any]


def unknown_setting(name: str, value: object) -> UserError:
    """The refusal of a setting that the graph has no nodes for."""
    return UserError(
        f"{name}={value}: the engine without torch cannot compute it; "
        "load the reader with engine='torch'."
    )


@dataclass(frozen=True)
class Layers:
    """The layers over a reader's weights."""

    g: Graph
    """The graph that nodes are added to."""
    w: Weights
    """The weights, by their names in the network."""
    in_c: bool = False
    """Whether products, LSTMs and fusions are those of ``c/``."""

    def linear(self, x: str, weight: Array, bias: Array | None = None) -> str:
        """x·W + b, for W [in, out].

        The 8-bit products have weights in 8 bits with a scale per column, and round x to 8 bits.
        """
        if self.in_c:
            packed = native.pack(weight, bias)
            columns = np.array([weight.shape[1]], np.int32)
            return self.g.op("Linear", x, *packed, columns, domain=native.DOMAIN)

        product = self.g.matmul(x, weight)
        return product if bias is None else self.g.add(product, bias)

    def linears(self, x: str, weights: Sequence[Array]) -> list[str]:
        """x times several matrices, as one product."""
        joined = self.linear(x, np.concatenate(weights, axis=1))
        if len(weights) == 1:
            return [joined]
        sizes = np.array([weight.shape[1] for weight in weights])
        return self.g.ops("Split", len(sizes), joined, sizes, axis=-1)

    def bilstm(self, name: str, x: str) -> str:
        """x [T, D] -> every state [T, 2H]."""
        hidden = self.w[f"{name}.weight_hh"].shape[2]
        if self.in_c:
            # the gates' inputs of all steps are one product, in the order that c/lstm.h has
            order = native.order(hidden)
            W = np.concatenate(self.w[f"{name}.weight_ih"][:, order])
            bias = np.concatenate(self.w[f"{name}.bias"][:, order])
            gates = self.linear(x, W.T, bias)
            packed = native.pack_lstm(self.w[f"{name}.weight_hh"])
            return self.g.op("BiLSTM", gates, *packed, domain=native.DOMAIN)

        # ONNX's operator wants a batch: here of one
        y, _ = self.lstm(name, self.g.op("Unsqueeze", x, np.array([1])))  # [T, 2, 1, H]
        return self.g.op("Reshape", y, np.array([-1, 2 * hidden]))

    def lstm(self, name: str, x: str, lengths: str = "") -> tuple[str, str]:
        """x [T, B, D] -> the states [T, 2, B, H] and the final ones [2, B, H], both directions."""
        W = _onnx_gates(self.w[f"{name}.weight_ih"])
        R = _onnx_gates(self.w[f"{name}.weight_hh"])
        bias = _onnx_gates(self.w[f"{name}.bias"])
        # ONNX adds two biases; ours is one
        biases = np.concatenate([bias, np.zeros_like(bias)], axis=1)
        about: dict[str, Any] = {
            "hidden_size": R.shape[2],
            "direction": "bidirectional",
        }
        y, last = self.g.ops("LSTM", 2, x, W, R, biases, lengths, **about)
        return y, last

    def similarity(
        self, config: NetworkConfig, name: str, a: str, b: str, extra: Array
    ) -> tuple[str, str, str]:
        """The two factors of f(a, b) (Eq. 1), and b·extra beside them."""
        match config.attention:
            case "relu":
                return self._relu_similarity(name, a, b, extra)
            case "dot":
                return a, b, self.linear(b, extra)
            case other:
                raise unknown_setting("network.attention", other)

    def _relu_similarity(self, name: str, a: str, b: str, extra: Array) -> tuple[str, str, str]:
        """relu(W₁a) and relu(W₂b)."""
        W1, W2 = (weight.T for weight in self.w[f"{name}.weight"])
        if a == b:
            # self alignment: all three are one product
            left, right, product = self.linears(b, [W1, W2, extra])
        else:
            left = self.linear(a, W1)
            right, product = self.linears(b, [W2, extra])
        return self.g.op("Relu", left), self.g.op("Relu", right), product


@dataclass(frozen=True)
class FoldedFusion:
    """Eq. 13 with W[x; y; x∘y; x−y] as (Wx+Ws)x + (Wy−Ws)y + Wm(x∘y).

    Matrices are [in, out], W_r beside W_g.
    """

    x: Array
    """Wx + Ws."""
    y: Array
    """Wy − Ws."""
    mul: Array | None
    """Wm, where the recipe feeds x∘y."""
    bias: Array
    form: str
    """The recipe's ``network.fusion``."""

    @staticmethod
    def of(w: Weights, name: str, config: NetworkConfig) -> FoldedFusion:
        """Fold the weights of one fusion."""
        parts = 2 + config.fusion_mul + config.fusion_sub
        # in this order: x, y, then x∘y and x−y where the recipe feeds them
        x, y, *rest = np.split(w[f"{name}.weight"].T, parts)
        if config.fusion_sub:
            difference = rest.pop()
            x = x + difference
            y = y - difference
        mul = rest.pop() if config.fusion_mul else None
        return FoldedFusion(x, y, mul, w[f"{name}.bias"], config.fusion)

    def fuse(self, layers: Layers, x: str, both: str) -> str:
        """o from x and the sum of the three products."""
        g = layers.g
        match self.form:
            case "mlp":
                # o = x̃
                return g.op("Relu", both)
            case "gate":
                # o = g∘x̃
                candidate, gate = self._halves(g, both)
                return g.mul(gate, candidate)
            case "highway" if layers.in_c:
                return g.op("Highway", both, x, domain=native.DOMAIN)
            case "highway":
                # o = x + g∘(x̃ − x)
                candidate, gate = self._halves(g, both)
                return g.add(x, g.mul(gate, g.sub(candidate, x)))
            case other:
                raise unknown_setting("network.fusion", other)

    def _halves(self, g: Graph, both: str) -> tuple[str, str]:
        """The candidate x̃ and the gate g."""
        r, gate = g.ops("Split", 2, both, axis=-1, num_outputs=2)
        return g.op("Relu", r), g.op("Sigmoid", gate)


def _onnx_gates(array: Array) -> Array:
    """Gates i, f, g, o along axis 1 in the order that ONNX has them: i, o, f, g."""
    i, f, g, o = np.split(array, 4, axis=1)
    return np.concatenate([i, o, f, g], axis=1)
