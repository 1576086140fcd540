"""Variational dropout: the same features are dropped at every step of a sequence."""

import torch.nn.functional as F
from torch import Tensor, nn


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
        """[batch, 1, size] of zeros and 1 / (1 - rate), of one type with ``like``; None outside training."""
        if not self.training or self.rate == 0:
            return None
        rows = F.dropout(like.new_ones(batch, 1, -(-size // 8) * 8), self.rate)  # rows of such a width are read faster
        return rows[:, :, :size]

    def extra_repr(self) -> str:
        """The rate, for print(network)."""
        return f"rate={self.rate}"
