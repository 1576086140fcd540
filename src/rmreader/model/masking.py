"""Masks: softmaxes that cannot see padding, and dropout
of the same features at every step of a sequence."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MASKED = -1e30
"""Logit of a padded position: far below any real one, and twice it is still finite in float32."""


def true_steps(lengths: Tensor, steps: int) -> Tensor:
    """Bool [B, steps]: which steps are words and which are padding, for lengths [B]."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


def masked_softmax(
    logits: Tensor, mask: Tensor, dim: int, kind: torch.dtype | None = None
) -> Tensor:
    """Softmax along ``dim`` over the positions where ``mask``
    is true; exactly 0 at the others. Rounded to ``kind``."""
    return _Softmax.apply(logits.masked_fill(~mask, MASKED), dim, kind or logits.dtype)  # type: ignore[no-any-return, no-untyped-call]


def masked_log_softmax(logits: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Logarithm of ``masked_softmax``, about ``MASKED`` where it is 0."""
    return torch.log_softmax(logits.masked_fill(~mask, MASKED), dim)


class _Softmax(torch.autograd.Function):
    """A softmax that keeps for backward what it gives, as rounded as that is, and nothing else."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, dim: int, kind: torch.dtype) -> Tensor:
        if torch.compiler.is_compiling():
            weights = torch.softmax(logits, dim).to(kind)
        else:  # along the last dimension it is six times as fast on a GPU
            weights = torch.softmax(logits.transpose(dim, -1), -1).transpose(dim, -1).to(kind)
        ctx.save_for_backward(weights)
        ctx.dim = dim
        ctx.kind = logits.dtype
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        weights = ctx.saved_tensors[0].to(ctx.kind)
        gradient = gradient.to(ctx.kind)
        return weights * (gradient - (weights * gradient).sum(ctx.dim, keepdim=True)), None, None


class VariationalDropout(nn.Module):
    """Dropout with one mask per sequence."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, D] times its mask; x itself outside training."""
        mask = self.mask(x, x.shape[0], x.shape[2])
        return x if mask is None else x * mask

    def mask(self, like: Tensor, batch: int, size: int) -> Tensor | None:
        """[batch, 1, size] of zeros and 1 / (1 - rate), of
        one type with ``like``; None outside training."""
        if not self.training or self.rate == 0:
            return None
        # rows of such a width are read faster
        rows = F.dropout(like.new_ones(batch, 1, -(-size // 8) * 8), self.rate)
        return rows[:, :, :size]
