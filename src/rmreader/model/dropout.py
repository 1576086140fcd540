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
        """x [B, T, D] times a mask [B, 1, D]; x itself outside training."""
        if not self.training or self.rate == 0:
            return x
        return x * F.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), self.rate)

    def extra_repr(self) -> str:
        """The rate, for print(network)."""
        return f"rate={self.rate}"
