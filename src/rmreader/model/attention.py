"""Similarity of words, and its refinement by the attentions of the block before: Eq. 1-5.

E [B, n, m] compares question words (rows) with context words (columns),
B [B, m, m] context words with each other. Both are logits: nothing here
is normalised before it is used, and what is remembered is the logits.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmreader.core.errors import UserError
from rmreader.model.masking import masked_softmax
from rmreader.model.precision import product_type, wide_matmul

EXCLUDED = -1e4
"""Logit of a word towards itself where it is left out: 0 after any softmax, yet above
padding, so that the only word of a one-word passage attends to itself and not to padding."""


class Similarity(nn.Module):
    """f of Eq. 1 for every pair of rows: relu(W₁a)·relu(W₂b), or the plain dot product a·b."""

    def __init__(self, size: int, function: Literal["relu", "dot"] = "relu") -> None:
        super().__init__()
        self.weight: nn.Parameter | None
        match function:
            case "relu":
                self.weight = nn.Parameter(torch.empty(2, size, size))  # W₁, W₂
                with torch.no_grad():
                    nn.init.xavier_uniform_(self.weight[0])
                    nn.init.xavier_uniform_(self.weight[1])
            case "dot":
                self.weight = None
            case other:
                raise UserError(f"network.attention={other}: the network has no such similarity.")

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a [B, s, D], b [B, t, D] -> f(a_i, b_j) [B, s, t]."""
        if self.weight is None:
            return wide_matmul(a, b, turned=True)
        if a is b:  # one product for both projections
            left, right = F.linear(a, self.weight.flatten(0, 1)).chunk(2, dim=-1)
        else:
            left = F.linear(a, self.weight[0])
            right = F.linear(b, self.weight[1])
        return wide_matmul(torch.relu(left), torch.relu(right), turned=True)


def without_diagonal(logits: Tensor, how: Literal["zero", "mask", "none"]) -> Tensor:
    """The indicator 1{i≠j} of Eq. 2 on B: the logit becomes
    0 (the paper), is excluded, or stays as it is."""
    match how:
        case "none":
            return logits
        case "zero":
            logit = 0.0
        case "mask":
            logit = EXCLUDED
        case other:
            raise UserError(f"network.diagonal={other}: the network has no such diagonal.")
    step = torch.arange(logits.shape[-1], device=logits.device)
    return logits.masked_fill(step[:, None] == step, logit)


def column_attention(logits: Tensor, rows: Tensor) -> Tensor:
    """softmax(X_:j): for each column what it attends
    to among the true rows; rows is bool [B, s]."""
    return masked_softmax(logits, rows[:, :, None], 1, product_type(logits))


def row_attention(logits: Tensor, columns: Tensor) -> Tensor:
    """softmax(X_i:): for each row what it attends to
    among the true columns; columns is bool [B, t]."""
    return masked_softmax(logits, columns[:, None, :], 2, product_type(logits))


def attend(weights: Tensor, values: Tensor) -> Tensor:
    """What each column attends to: weights [B, s, t],
    values [B, s, D] -> weightsᵀ·values [B, t, D]."""
    return _Attend.apply(weights, values.to(weights.dtype))  # type: ignore[no-any-return, no-untyped-call]


def overlap(past: Tensor, past_self: Tensor, context: Tensor) -> Tensor:
    """softmax(X_i:)·softmax(B_:j) over the context: Ẽ of
    Eq. 4 from E of the block before, B̃ of Eq. 5 from B.

    ``past_self`` is softmax(B_:j) of the block before, which both equations share.
    """
    return wide_matmul(row_attention(past, context), past_self)


class _Attend(torch.autograd.Function):
    """A product whose gradients lie in memory as the factors do, not turned."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(weights, values)
        return torch.bmm(weights.mT, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        weights, values = ctx.saved_tensors
        return torch.bmm(values, gradient.mT), torch.bmm(weights, gradient)
