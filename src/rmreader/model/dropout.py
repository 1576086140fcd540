"""Variational dropout: the same features are dropped at every step of a sequence."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class VariationalDropout(nn.Module):
    """Dropout with one mask a sequence."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, D] times its mask; x itself outside training."""
        mask = self.mask(x)
        return x if mask is None else x * mask

    def mask(self, x: Tensor) -> Tensor | None:
        """[B, 1, D] of zeros and 1 / (1 - rate); None outside training."""
        if not self.training or self.rate == 0:
            return None
        return F.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), self.rate)

    def extra_repr(self) -> str:
        """The rate, for print(network)."""
        return f"rate={self.rate}"
