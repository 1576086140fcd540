"""The answer pointer, Eq. 15-16: where the answer starts, and where it ends given what stands at the start."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmreader.config import NetworkConfig
from rmreader.model.compiled import compile_for_lengths
from rmreader.model.dropout import VariationalDropout
from rmreader.model.fusion import Fusion, heuristic_linear
from rmreader.model.masking import masked_log_softmax, masked_softmax


class Scorer(nn.Module):
    """wᵀ tanh(W[r; s; r∘s; r−s]) for every context word: the logits of Eq. 15 and of Eq. 16."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(size, 4 * size))
        self.w = nn.Parameter(torch.empty(size, 1))
        nn.init.xavier_uniform_(self.W)
        nn.init.xavier_uniform_(self.w)

    def forward(self, R: Tensor, s: Tensor) -> Tensor:
        """R [B, m, 2d], s [B, 1, 2d] -> logits [B, m]."""
        return weighted_sum(torch.tanh(heuristic_linear(R, s, self.W)), self.w)


def weighted_sum(x: Tensor, w: Tensor) -> Tensor:
    """xᵀw for x [B, T, D] and w [D, 1] -> [B, T], in the type of w even where matrix products are less precise."""
    return (x * w[:, 0]).sum(dim=-1)


def summary(V: Tensor, w: Tensor, question: Tensor) -> Tensor:
    """s = Σ αᵢ vᵢ with αᵢ ∝ exp(wᵀvᵢ): the question V [B, n, 2d] as one vector [B, 1, 2d]."""
    alpha = masked_softmax(weighted_sum(V, w), question, dim=1)
    return alpha[:, None, :] @ V


def expectation(R: Tensor, p: Tensor) -> Tensor:
    """l = R·p₁: what stands at the start, one vector an example [B, 1, 2d], summed over positions."""
    return p[:, None, :] @ R


class Pointer(nn.Module):
    """The start and end distributions."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        size = 2 * config.hidden
        self.w = nn.Parameter(torch.empty(size, 1))
        nn.init.xavier_uniform_(self.w)
        self.start = Scorer(size)
        self.fusion = Fusion(size, config.fusion, config.fusion_mul, config.fusion_sub)
        self.end = Scorer(size)
        self.drop = VariationalDropout(config.dropout)

    def compile_pointer(self) -> None:
        """Fuse the whole pointer into few kernels, the same ones for any lengths."""
        self.forward = compile_for_lengths(self.forward, "bmd", "bnd", "bm", "bn")  # type: ignore[method-assign]

    def forward(self, R: Tensor, V: Tensor, context: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """R [B, m, 2d], V [B, n, 2d], true words of each -> log p₁ and log p₂, each [B, m]."""
        R, V = self.drop(R), self.drop(V)
        s = summary(V, self.w, question)
        log_p1 = masked_log_softmax(self.start(R, s), context, dim=1)  # Eq. 15
        s = self.fusion(s, expectation(R, log_p1.exp()))  # s̃ = fusion(s, l)
        log_p2 = masked_log_softmax(self.end(R, s), context, dim=1)  # Eq. 16
        return log_p1, log_p2
