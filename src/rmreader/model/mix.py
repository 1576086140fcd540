"""The trained scalar mix of an encoder's layers: γ · Σ softmax(w)ₗ · hₗ (Peters et al., 2018, Eq. 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """One vector from the layers of a frozen encoder."""

    def __init__(self, layers: int, dropout: float = 0.0) -> None:
        """``dropout``: chance that a layer is left out of the softmax in a training step."""
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.dropout = dropout

    def forward(self, layers: Tensor) -> Tensor:
        """[..., layers, size] in any float type -> [..., size] in the type of the weights."""
        logits: Tensor = self.weights
        if self.training and self.dropout > 0:
            # a dropped layer's logit is far down, not -inf: with all dropped the softmax stays defined
            dropped = torch.rand_like(logits) < self.dropout
            logits = logits - 1e4 * dropped.to(logits.dtype)
        mix = self.gamma * torch.softmax(logits, dim=0)
        # not a matrix product: it would be one of a few numbers for every word, and round them in mixed precision
        return (layers * mix.unsqueeze(-1)).sum(dim=-2)
