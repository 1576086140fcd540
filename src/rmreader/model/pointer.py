"""The answer pointer, Eq. 15-16: where the answer
starts, and where it ends given what is at the start.

Beside it, where the recipe asks for it, a logit for "there is no answer here".
"""

import torch
from torch import Tensor, nn

from rmreader.core.recipe import NetworkConfig
from rmreader.model.compiled import compile_for_lengths
from rmreader.model.fusion import Fusion, heuristic_linear
from rmreader.model.masking import MASKED, VariationalDropout, masked_log_softmax, masked_softmax


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
    """xᵀw for x [B, T, D] and w [D, 1] -> [B, T], in the
    type of w even where matrix products are less precise."""
    return (x * w[:, 0]).sum(dim=-1)


def summary(V: Tensor, w: Tensor, question: Tensor) -> Tensor:
    """s = Σ αᵢ vᵢ with αᵢ ∝ exp(wᵀvᵢ): the question V [B, n, 2d] as one vector [B, 1, 2d]."""
    alpha = masked_softmax(weighted_sum(V, w), question, dim=1)
    return alpha[:, None, :] @ V


def log_total(logits: Tensor, mask: Tensor) -> Tensor:
    """log Z = log Σ exp over the true words; [B, m] -> [B]."""
    return logits.masked_fill(~mask, MASKED).logsumexp(dim=1)


def expectation(R: Tensor, p: Tensor) -> Tensor:
    """l = R·p₁: what is at the start, one vector per example [B, 1, 2d], summed over positions."""
    return p[:, None, :] @ R


class NoAnswer(nn.Module):
    """z = wᵀ tanh(W[l₁; l₂; s] + b) + c: how much speaks for
    there being no answer, on the scale of the spans' logits.

    Not in the paper: Clark & Gardner (2018) and Hu et al.
    (2019) put z into one softmax with the logits of all spans.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(size, 3 * size))
        self.b = nn.Parameter(torch.zeros(size))
        self.w = nn.Parameter(torch.empty(size, 1))
        self.c = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.W)
        nn.init.xavier_uniform_(self.w)

    def forward(self, l1: Tensor, l2: Tensor, s: Tensor) -> Tensor:
        """What is at the start and at the end, and the question, each [B, 1, 2d] -> z [B]."""
        inner = torch.tanh(torch.cat([l1, l2, s], dim=-1) @ self.W.T + self.b)
        return weighted_sum(inner, self.w)[:, 0] + self.c


class Pointer(nn.Module):
    """The start and end distributions, and where it is
    asked for the chance that there is no answer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        size = 2 * config.hidden
        self.w = nn.Parameter(torch.empty(size, 1))
        nn.init.xavier_uniform_(self.w)
        self.start = Scorer(size)
        self.fusion = Fusion(size, config.fusion, config.fusion_mul, config.fusion_sub)
        self.end = Scorer(size)
        self.drop = VariationalDropout(config.dropout)
        self.no_answer = NoAnswer(size) if config.no_answer else None

    def compile_pointer(self) -> None:
        """Fuse the whole pointer into few kernels, the same ones for any lengths."""
        self.forward = compile_for_lengths(self.forward, "bmd", "bnd", "bm", "bn")  # type: ignore[method-assign]

    def forward(
        self,
        R: Tensor,
        V: Tensor,
        context: Tensor,
        question: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
        """R [B, m, 2d], V [B, n, 2d], true words of each -> log p₁ and
        log p₂ [B, m], log-odds of no answer [B]; and the logits that
        they come from: of start and end [B, m] and of no answer [B]."""
        R = self.drop(R)
        V = self.drop(V)

        s = summary(V, self.w, question)
        start = self.start(R, s)
        log_p1 = masked_log_softmax(start, context, dim=1)  # Eq. 15
        l1 = expectation(R, log_p1.exp())
        end = self.end(R, self.fusion(s, l1))  # s̃ = fusion(s, l)
        log_p2 = masked_log_softmax(end, context, dim=1)  # Eq. 16
        if self.no_answer is None:
            return log_p1, log_p2, None, start, end, None

        z = self.no_answer(l1, expectation(R, log_p2.exp()), s)
        # p(none) = e^z / (e^z + Σᵢⱼ e^(startᵢ + endⱼ)), and that sum is Z₁·Z₂
        log_odds = z - log_total(start, context) - log_total(end, context)
        return log_p1, log_p2, log_odds, start, end, z
