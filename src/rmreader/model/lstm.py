"""The bidirectional LSTM as a module: its weights, how they start, and which kernel runs them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rmreader.kernels.lstm import Kernel, Precision, bilstm
from rmreader.model.masking import VariationalDropout


class BiLSTM(nn.Module):
    """One layer, both directions (0 forward, 1 backward),
    gates in the order i, f, g, o; dropout on its input."""

    def __init__(
        self,
        size: int,
        hidden: int,
        kernel: Kernel = "auto",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.kernel: Kernel = kernel
        self.drop = VariationalDropout(dropout)
        self.weight_ih = nn.Parameter(torch.empty(2, 4 * hidden, size))
        self.weight_hh = nn.Parameter(torch.empty(2, 4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(2, 4 * hidden))
        with torch.no_grad():
            for direction in range(2):
                for gate in self.weight_ih[direction].chunk(4):
                    nn.init.xavier_uniform_(gate)

                for gate in self.weight_hh[direction].chunk(4):
                    nn.init.orthogonal_(gate)

            self.bias[:, hidden : 2 * hidden] = 1.0  # remember, until taught to forget

    def forward(
        self,
        x: Tensor | Sequence[Tensor],
        lengths: Tensor,
        owners: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """x [B, T, D] (or parts of it side by side), lengths [B] -> every state
        [B, T, 2H] (0 at padding) and the two final ones [B, 2H]; those alone where
        x is rows [N, D] of sequences without padding, each with its owner."""
        first = x if isinstance(x, Tensor) else x[0]
        precision: Precision = "bf16" if torch.is_autocast_enabled(first.device.type) else "fp32"
        weights = self.weight_ih, self.weight_hh, self.bias
        mask = self.drop.mask(first, len(lengths), self.weight_ih.shape[2])

        return bilstm(x, lengths, *weights, self.kernel, precision, mask, owners)
