"""The bidirectional LSTM as a module: its weights, how they start, and which kernel runs them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rmreader.kernels.lstm import Kernel, Precision, bilstm, final_states
from rmreader.model.masking import VariationalDropout


class BiLSTM(nn.Module):
    """One layer, both directions (0 forward, 1 backward), gates in the order i, f, g, o; dropout on its input."""

    def __init__(self, size: int, hidden: int, kernel: Kernel = "auto", dropout: float = 0.0) -> None:
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

    def forward(self, x: Tensor | Sequence[Tensor], lengths: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, D] (or parts of it side by side), lengths [B] -> every state [B, T, 2H] (0 at padding) and the two
        final ones [B, 2H]."""
        return bilstm(x, lengths, *self._how(x if isinstance(x, Tensor) else x[0], len(lengths)))

    def final(self, x: Tensor, owners: Tensor, lengths: Tensor) -> Tensor:
        """The two final states [B, 2H] for the rows x [N, D] of sequences without padding, one after the other."""
        return final_states(x, owners, lengths, *self._how(x, len(lengths)))

    def _how(self, x: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Kernel, Precision, Tensor | None]:
        """The weights, the kernel, its precision, and the dropout of so many sequences."""
        precision: Precision = "bf16" if torch.is_autocast_enabled(x.device.type) else "fp32"
        mask = self.drop.mask(x, count, self.weight_ih.shape[2])
        return self.weight_ih, self.weight_hh, self.bias, self.kernel, precision, mask

    def extra_repr(self) -> str:
        """The sizes, for print(network)."""
        return f"{self.weight_ih.shape[2]}, hidden={self.weight_hh.shape[2]}, kernel={self.kernel}"
